// tessera bench: how fast, and which share of what the machine can do.
#include "app/bench/bench.h"

#include <CLI/CLI.hpp>

#include "app/commands.h"

namespace tessera::app {

void add_bench_command(CLI::App& app) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure against the limits of the machine at that moment");
  bench->require_subcommand(1);
  add_bench_decode(*bench);
  add_bench_prefill(*bench);
  add_bench_batch(*bench);
  add_bench_memory(*bench);
  add_bench_prolog(*bench);
  add_bench_kernels(*bench);
  add_bench_compare(*bench);
}

}  // namespace tessera::app
