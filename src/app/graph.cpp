// tessera graph: shows the plan of a recorded step.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "app/commands.h"
#include "app/graph_options.h"
#include "app/model_options.h"
#include "app/output.h"
#include "app/validators.h"
#include "base/fail.h"
#include "engine/loaded_model.h"
#include "graph/print.h"
#include "model/graph/step_graphs.h"
#include "model/weight_layout.h"

namespace tessera::app {

namespace {

struct ShowOptions {
  ModelOptions model;
  GraphFlags graph;
  std::int64_t batch = 1;
  std::int64_t q_len = 1;
  std::int64_t context = 4096;
  std::string format = "text";
};

std::string text_of(const graph::Graph& graph, const std::string& format) {
  if (format == "dot") return to_dot(graph);
  if (format == "json") return to_json(graph);
  return to_text(graph);
}

void show(const ShowOptions& options) {
  const LoadOptions load = load_options(options.model);
  LoadedModel model(model_folder(options.model), load);
  model.load(load);
  KvCache cache(model.config, cache_dtype(model.format), options.batch * options.context,
                model.kernels->kv_cache(), model.weights.mapped_bytes());
  GraphOptions graph = graph_options(options.graph);
  graph.strict = true;
  StepGraphs graphs(model.config, model.weights, model.executor, *model.kernels, cache, graph);
  const StepGraphs::Captured* captured =
      graphs.captured(options.batch * options.q_len, options.batch);
  if (captured == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "no graph serves steps of {} tokens; choose --graph-buckets with that number",
         options.batch * options.q_len);
  }
  write_out(text_of(*captured->graph, options.format));
}

}  // namespace

void add_graph_command(CLI::App& app) {
  CLI::App* graph = app.add_subcommand("graph", "Show how a decode step is planned in graph mode");
  graph->require_subcommand(1);
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command =
      graph->add_subcommand("show", "operators, phases, buffers and their lifetimes");
  add_model_options(*command, options->model);
  add_graph_options(*command, options->graph);
  command->add_option("--batch", options->batch, "sequences of the step")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command->add_option("--q-len", options->q_len, "tokens of each")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command->add_option("--context", options->context, "tokens that a sequence may reach")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_option("--format", options->format, "text, dot (for Graphviz) or json")
      ->check(CLI::IsMember({"text", "dot", "json"}))
      ->capture_default_str();
  command->callback([options] { show(*options); });
}

}  // namespace tessera::app
