// pairs: two stores that interleave become one nest.
//
// Rotary embedding writes the even elements of a row in one statement and the odd ones in another,
// from the same numbers. Apart, each would touch every second element, lane by lane. This pass puts
// two neighbouring nests over the same variables together where they store to adjacent elements,
// two apart from the next; a target then loads and stores whole vectors and shuffles in registers.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

void pairs(ir::Kernel& kernel);

}  // namespace tessera::tile::passes
