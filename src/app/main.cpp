// The `tessera` command. One file per subcommand; this one only dispatches and maps errors to exit
// codes.
#include <algorithm>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <tessera/error.h>
#include <tessera/language_model.h>

#include "app/arguments.h"
#include "app/commands.h"
#include "app/output.h"
#include "tile/call/shared_cache.h"

namespace {

namespace app = tessera::app;

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

int parse_and_run(CLI::App& command, std::vector<std::string> arguments) {
  if (arguments.empty()) arguments.emplace_back("--help");
  arguments = app::normalised(command, std::move(arguments));
  std::reverse(arguments.begin(), arguments.end());  // what CLI::App::parse(vector) takes
  try {
    command.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // help and version
      std::ostringstream text;
      command.exit(error, text, text);
      app::write_out(text.str());
      return 0;
    }
    app::write_error_line(std::string(error.what()) + " (see --help)");
    return kExitUsage;
  }
  return 0;
}

int run(int argc, char** argv) {
  tessera::tile::set_cache_warnings(app::write_warning_line);
  CLI::App command("Runs DeepSeek-V2 models straight from a Hugging Face folder.", "tessera");
  command.set_version_flag("--version", "tessera " + std::string(tessera::version()));
  command.require_subcommand(1);
  app::add_analyze_command(command);
  app::add_ask_command(command);
  app::add_bench_command(command);
  app::add_graph_command(command);
  app::add_kernels_command(command);
  app::add_logits_command(command);
  app::add_pack_command(command);
  app::add_synth_command(command);
  app::add_tokenize_command(command);
  app::add_verify_command(command);

  const int exit_code = parse_and_run(command, {argv + std::min(argc, 1), argv + argc});
  app::flush_out();  // what did not get out is a failure
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  app::open_standard_streams();
  try {
    return run(argc, argv);
  } catch (const tessera::Error& error) {
    app::write_error_line(error.what());
    return error.code() == tessera::ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
  } catch (const std::bad_alloc&) {
    app::write_err("tessera: out of memory; free some or use a smaller --context or --dtype\n");
  } catch (const std::exception& error) {
    app::write_error_line(error.what());
  }
  return kExitFailed;
}
