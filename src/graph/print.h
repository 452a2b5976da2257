// A plan for people and programs to look at.
#pragma once

#include <string>

#include "graph/graph.h"

namespace tessera::graph {

std::string to_text(const Graph& graph);  // phases, their launches, and every buffer's lifetime
std::string to_dot(const Graph& graph);   // launches, clustered by phase, and the data between them
std::string to_json(const Graph& graph);  // {n_workers, phases: [...], buffers: [...], ...}

}  // namespace tessera::graph
