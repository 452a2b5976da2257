#include "app/graph_options.h"

#include "app/validators.h"

namespace tessera::app {

void add_graph_options(CLI::App& command, GraphFlags& flags, GraphDefault by_default) {
  const auto on_or_off = CLI::IsMember({"on", "off"});
  CLI::Option* use = command.add_flag("--use-graph,--use-acl-graph", flags.use_graph,
                                      "record a decode step once, plan it, and replay it");
  if (by_default == GraphDefault::kOn) {
    use->description(use->get_description() + " (the default)");
    flags.use_graph = true;
    command.add_flag("--no-graph", flags.no_graph, "run decode steps eagerly")->excludes(use);
  }
  command
      .add_option("--graph-mode", flags.mode,
                  "reduce-overhead: no barrier that no data needs; default: one behind every "
                  "operator")
      ->check(CLI::IsMember({"reduce-overhead", "default"}))
      ->capture_default_str();
  command
      .add_option("--frozen-parameter", flags.frozen_parameter,
                  "look weights up when a step is recorded, not in every replay")
      ->check(on_or_off)
      ->capture_default_str();
  command
      .add_option("--tiling-schedule-optimize", flags.tiling_schedule_optimize,
                  "fix each thread's share ahead from measured costs, not at launch")
      ->check(on_or_off)
      ->capture_default_str();
  command
      .add_option("--graph-buckets", flags.buckets,
                  "numbers of tokens that steps are recorded for (default: 1,2,4,8,16)")
      ->check(lengths());
  command.add_flag("--graph-strict", flags.strict,
                   "a step that cannot be recorded is an error, not a warning");
}

void add_trace_option(CLI::App& command, std::string& file) {
  command.add_option("--trace", file, "write a timeline for Chrome's or Perfetto's viewer")
      ->check(not_empty("the name of a file"));
}

GraphOptions graph_options(const GraphFlags& flags) {
  GraphOptions options;
  options.enabled = flags.use_graph && !flags.no_graph;
  options.reduce_overhead = flags.mode == "reduce-overhead";
  options.frozen_parameters = flags.frozen_parameter == "on";
  options.static_shares = flags.tiling_schedule_optimize == "on";
  if (!flags.buckets.empty()) options.buckets = parse_lengths(flags.buckets);
  options.strict = flags.strict;
  return options;
}

nlohmann::ordered_json report_of(const GraphReport& graph) {
  return {{"buckets", graph.buckets},         {"ops", graph.ops},
          {"phases", graph.phases},           {"barriers", graph.barriers},
          {"arena_bytes", graph.arena_bytes}, {"eager_bytes", graph.eager_bytes},
          {"replays", graph.replays},         {"eager_steps", graph.eager_steps}};
}

}  // namespace tessera::app
