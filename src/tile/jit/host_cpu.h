// Which CPU this is, found without LLVM and in microseconds.
#pragma once

#include "tile/jit/hash.h"

namespace tessera::tile {

// Differs between CPUs of different models or with different instructions (also where a virtual
// machine hides some).
void add_host_cpu(Hasher& hasher);

}  // namespace tessera::tile
