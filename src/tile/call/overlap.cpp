#include "tile/call/overlap.h"

#include <algorithm>

#include "tile/packed/panel_layout.h"

namespace tessera::tile {

namespace {

struct Walk {
  std::int64_t count;
  std::int64_t stride;  // bytes
};

// The dims that have more than one index, the widest stride first; memory without gaps is one of
// them.
struct Walks {
  std::array<Walk, kMaxRank + 1> list;
  int n = 0;
  std::int64_t bytes = 0;  // of one element

  // From the first byte to behind the last of dim `from` and those inside it.
  std::int64_t span(int from) const {
    std::int64_t span = bytes;
    for (int d = from; d < n; ++d) {
      const Walk& walk = list[static_cast<std::size_t>(d)];
      span += (walk.count - 1) * walk.stride;
    }
    return span;
  }
};

Walks walks_of(const Argument& argument) {
  Walks walks;
  walks.bytes = static_cast<std::int64_t>(size_in_bytes(argument.element));
  if (argument.packed || argument.dense) {
    walks.bytes = static_cast<std::int64_t>(span_in_bytes(argument));
    return walks;
  }
  for (int d = 0; d < argument.rank; ++d) {
    const auto dim = static_cast<std::size_t>(d);
    if (argument.dims[dim] == 1) continue;
    const Walk walk{argument.dims[dim], argument.strides[dim] * walks.bytes};
    auto at = static_cast<std::size_t>(walks.n++);
    for (; at > 0 && walks.list[at - 1].stride < walk.stride; --at) {
      walks.list[at] = walks.list[at - 1];
    }
    walks.list[at] = walk;
  }
  return walks;
}

// From dim i of a and dim j of b on, where b begins `distance` bytes behind a.
bool meet(const Walks& a, int i, const Walks& b, int j, std::int64_t distance) {
  if (distance >= a.span(i) || -distance >= b.span(j)) return false;
  const std::int64_t stride = std::max(i < a.n ? a.list[static_cast<std::size_t>(i)].stride : 0,
                                       j < b.n ? b.list[static_cast<std::size_t>(j)].stride : 0);
  const auto rows = [&](const Walks& w, int d) {
    return d < w.n && w.list[static_cast<std::size_t>(d)].stride == stride ? d + 1 : d;
  };
  const int row_of_a = rows(a, i);
  const int row_of_b = rows(b, j);
  if (stride == 0 || a.span(row_of_a) > stride || b.span(row_of_b) > stride) return true;
  // Rows of both repeat at one distance: compare one of a with its two neighbours of b.
  const std::int64_t behind = (distance % stride + stride) % stride;
  return meet(a, row_of_a, b, row_of_b, behind) || meet(a, row_of_a, b, row_of_b, behind - stride);
}

}  // namespace

std::size_t span_in_bytes(const Argument& argument) {
  if (argument.packed) {
    return cpu::PackedShape{cpu::weight_layout(argument.element), argument.dims[0],
                            argument.dims[1]}
        .bytes();
  }
  std::size_t elements = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(argument.rank); ++d) {
    if (argument.dense) {
      elements *= static_cast<std::size_t>(argument.dims[d]);
    } else {
      elements += static_cast<std::size_t>((argument.dims[d] - 1) * argument.strides[d]);
    }
  }
  return elements * size_in_bytes(argument.element);
}

bool share_memory(const Argument& a, const Argument& b) {
  const auto begin_of_a = reinterpret_cast<std::uintptr_t>(a.data);
  const auto begin_of_b = reinterpret_cast<std::uintptr_t>(b.data);
  if (begin_of_b >= begin_of_a + span_in_bytes(a) || begin_of_a >= begin_of_b + span_in_bytes(b)) {
    return false;
  }
  return meet(walks_of(a), 0, walks_of(b), 0, static_cast<std::int64_t>(begin_of_b - begin_of_a));
}

bool elements_apart(const Argument& argument) {
  if (argument.dense) return true;
  const Walks walks = walks_of(argument);
  for (int d = 0; d < walks.n; ++d) {
    if (walks.list[static_cast<std::size_t>(d)].stride < walks.span(d + 1)) return false;
  }
  return true;
}

}  // namespace tessera::tile
