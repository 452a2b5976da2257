// The subcommands of `tessera bench`. Each registers its options and what runs when it is chosen.
#pragma once

namespace CLI {
class App;
}

namespace tessera::app {

void add_bench_decode(CLI::App& bench);
void add_bench_prefill(CLI::App& bench);
void add_bench_batch(CLI::App& bench);
void add_bench_memory(CLI::App& bench);
void add_bench_prolog(CLI::App& bench);
void add_bench_kernels(CLI::App& bench);
void add_bench_compare(CLI::App& bench);

}  // namespace tessera::app
