// The compile cache that every kernel of the process uses.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "tile/jit/compile_cache.h"

namespace tessera::tile {

// Made at first use, in the default folder, unless it was set before.
std::shared_ptr<CompileCache> shared_cache();
// Kernels compiled before keep their code.
void set_shared_cache(std::shared_ptr<CompileCache> cache);

// Where the warnings of the cache that shared_cache() makes go, each sentence once; nowhere, until
// this is called. warn is called from any thread, but by one at a time.
void set_cache_warnings(std::function<void(std::string_view sentence)> warn);

}  // namespace tessera::tile
