// `tessera synth`: a model of real sizes with random weights.
#pragma once

namespace CLI {
class App;
}

namespace tessera {

void add_synth_command(CLI::App& app);

}  // namespace tessera
