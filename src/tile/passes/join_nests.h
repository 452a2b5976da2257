// Several nests over the same variables as one.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

// True if both have the same variables, none of which reduces.
bool same_vars(const ir::Op& a, const ir::Op& b);

// Appends the points of a second nest: what both load is loaded once, and all stores come last. The
// second must load nothing that the first stores.
void join_points(ir::Block& into, ir::Block from);

}  // namespace tessera::tile::passes
