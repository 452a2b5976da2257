// The list of subcommands. Each registers its options and what runs when it is chosen.
#pragma once

namespace CLI {
class App;
}

namespace tessera::app {

void add_analyze_command(CLI::App& app);
void add_ask_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_graph_command(CLI::App& app);
void add_kernels_command(CLI::App& app);
void add_logits_command(CLI::App& app);
void add_pack_command(CLI::App& app);
void add_synth_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_verify_command(CLI::App& app);

}  // namespace tessera::app
