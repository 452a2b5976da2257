// Which launches of a step run without a barrier between them.
#pragma once

#include <vector>

#include "graph/recording.h"

namespace tessera::graph {

// Whether a worker that comes to `later` must wait until all workers are through `earlier`. A
// worker's own launches run in their order, so launches that only it runs, and copies that only it
// touches, need no barrier.
bool needs_barrier(const Recording& recording, const Launch& earlier, const Launch& later);

enum class Merging {
  kNone,    // a barrier behind every launch
  kPhases,  // only where data needs one
};

// The phase of every launch, rising from 0: there is a barrier between two phases.
std::vector<int> phases_of(const Recording& recording, Merging merging);

}  // namespace tessera::graph
