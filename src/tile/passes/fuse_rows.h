// fuse_rows: statements that walk over the same rows share one loop over them (part of `phases`).
//
// Where each nest's first variable has the same extent, and everything that one nest stores is read
// by the others at the row it was stored for, the nests become the body of one loop: a row is
// normalised while it is still near.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

// Replaces the nests by one loop that holds them, or leaves them as they are.
void fuse_rows(const ir::Kernel& kernel, ir::Block& nests);

}  // namespace tessera::tile::passes
