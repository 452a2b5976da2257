// Whether two tensors of a call share memory.
#pragma once

#include <tessera/tile.h>

namespace tessera::tile {

// Bytes from an argument's first element to the end of its last.
std::size_t span_in_bytes(const Argument& argument);

// False only if no byte belongs to both. Rows that lie in each other's gaps are apart where both
// have the same strides.
bool share_memory(const Argument& a, const Argument& b);

// True if no element of a tensor with gaps is another one, too.
bool elements_apart(const Argument& argument);

}  // namespace tessera::tile
