// The `tessera` command. One file per subcommand; this one only dispatches and maps errors to exit
// codes.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <tessera/error.h>
#include <tessera/language_model.h>

#include "app/commands.h"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// --model_path and --model-path are the same flag: names are spelled with dashes inside.
std::vector<std::string> with_dashes(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument.rfind("--", 0) != 0) continue;
    const std::size_t end = argument.find('=');
    for (std::size_t i = 0; i < argument.size() && i != end; ++i) {
      if (argument[i] == '_') argument[i] = '-';
    }
  }
  return arguments;
}

int run(int argc, char** argv) {
  CLI::App app("Runs DeepSeek-V2 models straight from a Hugging Face folder.", "tessera");
  app.set_version_flag("--version", "tessera " + std::string(tessera::version()));
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("tessera: {} (see --help)\n", error.what());
  });
  tessera::app::add_ask_command(app);
  tessera::app::add_logits_command(app);
  tessera::app::add_synth_command(app);
  tessera::app::add_tokenize_command(app);
  tessera::app::add_verify_command(app);

  std::vector<std::string> arguments = with_dashes(argc, argv);
  if (arguments.empty()) arguments.emplace_back("--help");
  std::reverse(arguments.begin(), arguments.end());  // what CLI::App::parse(vector) takes
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "tessera: {}\n", error.what());
    return error.code() == tessera::ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tessera: out of memory; free some or use a smaller --context or --dtype\n");
    return kExitFailed;
  }
}
