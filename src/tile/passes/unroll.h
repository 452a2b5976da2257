// unroll: one exact loop per factor.
//
// An unrolled loop is written once and traced once per factor, so that each body has static shapes.
// A dynamic count is then cut greedily: as many pieces of the largest factor as fit, of the rest as
// many of the next one, and so on; since the last factor is 1, nothing is left over and no piece
// runs past the end. This pass makes a loop of each factor, over the number of its pieces, and
// leaves out the factors that the bounds of the shape class show to be unused. Loops that run
// exactly once lose their loop.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

void unroll(ir::Kernel& kernel);

}  // namespace tessera::tile::passes
