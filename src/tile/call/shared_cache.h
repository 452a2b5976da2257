// The compile cache that every kernel of the process uses.
#pragma once

#include <memory>

#include "tile/jit/compile_cache.h"

namespace tessera::tile {

// Made at first use, in the default folder and without warnings, unless it was set before.
std::shared_ptr<CompileCache> shared_cache();
// Kernels compiled before keep their code.
void set_shared_cache(std::shared_ptr<CompileCache> cache);

}  // namespace tessera::tile
