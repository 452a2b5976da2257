// Where the buffers of a step lie in one arena: those that are never needed at the same time share
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/recording.h"

namespace tessera::graph {

// The phases in which a buffer is needed, both included; last < first where nothing uses it.
struct Lifetime {
  int first = 0;
  int last = -1;

  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

struct Placement {
  std::vector<std::size_t> offsets;  // of each buffer's first copy; copies follow one another
  std::vector<Lifetime> lifetimes;
  std::size_t arena_bytes = 0;
  std::size_t sum_bytes = 0;  // what all buffers would take side by side
};

// Bytes from one copy of a buffer to the next.
std::size_t copy_stride(const BufferInfo& buffer);

// phase_of: the phase of every launch, in order.
Placement place(const Recording& recording, std::span<const int> phase_of);

}  // namespace tessera::graph
