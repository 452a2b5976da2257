// What the benchmarks of steps of a model (decode, prefill, batch) have in common.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "app/graph_options.h"
#include "app/model_options.h"
#include "engine/step_bench.h"

namespace tessera::app {

struct StepOptions {
  ModelOptions model;
  GraphFlags graph;
  bool against_eager = false;  // measure both
  int repeat = 9;
  bool by_op = false;
  std::string json_file;
  std::string trace_file;
};

void add_step_options(CLI::App& command, StepOptions& options);

// Loads the model, measures each of `work`, prints a table and writes the report.
void run_step_bench(const std::string& command, const StepOptions& options,
                    const std::vector<StepWork>& work);

}  // namespace tessera::app
