// The words of the command line, before the parser sees them.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tessera::app {

// Names of options are spelled with dashes inside: --model_path and --model-path are the same.
// Values stay as they are, also those that begin with dashes, and so does all that follows "--".
// Throws Error(kInvalidArgument) naming a subcommand that does not exist.
std::vector<std::string> normalised(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace tessera::app
