#include "graph/phases.h"

#include <algorithm>

namespace tessera::graph {

namespace {

// Whether a part that one list names is in the other, other than in copies that their worker alone
// touches.
bool conflict(const Recording& recording, const Launch& earlier, const std::vector<Use>& a,
              const Launch& later, const std::vector<Use>& b) {
  const bool both_one = earlier.info.spread == Spread::kOne && later.info.spread == Spread::kOne;
  for (const Use& x : a) {
    for (const Use& y : b) {
      if (x.buffer != y.buffer || (x.parts & y.parts) == 0) continue;
      if (both_one) continue;
      const bool own_copy = recording.buffers[static_cast<std::size_t>(x.buffer)].per_worker &&
                            earlier.info.spread != Spread::kOne;
      if (!own_copy) return true;
    }
  }
  return false;
}

}  // namespace

bool needs_barrier(const Recording& recording, const Launch& earlier, const Launch& later) {
  return conflict(recording, earlier, earlier.info.writes, later, later.info.reads) ||
         conflict(recording, earlier, earlier.info.writes, later, later.info.writes) ||
         conflict(recording, earlier, earlier.info.reads, later, later.info.writes);
}

std::vector<int> phases_of(const Recording& recording, Merging merging) {
  std::vector<int> phase_of;
  std::size_t first = 0;  // launch of the current phase
  int phase = 0;
  for (std::size_t i = 0; i < recording.launches.size(); ++i) {
    const auto waits = [&](const Launch& earlier) {
      return needs_barrier(recording, earlier, recording.launches[i]);
    };
    const bool barrier =
        merging == Merging::kNone
            ? i > 0
            : std::any_of(recording.launches.begin() + static_cast<std::ptrdiff_t>(first),
                          recording.launches.begin() + static_cast<std::ptrdiff_t>(i), waits);
    if (barrier) {
      ++phase;
      first = i;
    }
    phase_of.push_back(phase);
  }
  return phase_of;
}

}  // namespace tessera::graph
