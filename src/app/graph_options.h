// The options of graph mode.
#pragma once

#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <tessera/graph.h>

namespace tessera::app {

struct GraphFlags {
  bool use_graph = false;
  bool no_graph = false;
  std::string mode = "reduce-overhead";
  std::string frozen_parameter = "on";
  std::string tiling_schedule_optimize = "on";
  std::string buckets;  // as 1,2,4; empty: the default
  bool strict = false;
};

// kOn: steps are replayed without --use-graph too, and there is --no-graph.
enum class GraphDefault { kOff, kOn };
void add_graph_options(CLI::App& command, GraphFlags& flags,
                       GraphDefault by_default = GraphDefault::kOff);

// --trace FILE.
void add_trace_option(CLI::App& command, std::string& file);

GraphOptions graph_options(const GraphFlags& flags);

// {buckets, ops, phases, barriers, arena_bytes, eager_bytes, replays, eager_steps}.
nlohmann::ordered_json report_of(const GraphReport& graph);

}  // namespace tessera::app
