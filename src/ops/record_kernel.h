// Tile kernels in a recorded step.
#pragma once

#include <functional>
#include <vector>

#include <tessera/tile.h>

#include "graph/recorder.h"

namespace tessera::ops {

// A launch for each phase of the kernel. arguments(worker) gives its arguments for as many rows as
// there are at the time; it is called now, with the most, and before a replay with another number
// of the same shape class. info: what the kernel reads and writes as a whole.
void record_kernel(graph::Recorder& recorder, const graph::LaunchInfo& info, tile::Kernel kernel,
                   std::function<std::vector<tile::Argument>(int worker)> arguments);

}  // namespace tessera::ops
