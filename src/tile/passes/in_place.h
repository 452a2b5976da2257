// The pass `in_place`: shows that tensors which are updated in place are read before they are
// overwritten, in the order that the passes before it have chosen.
//
// The tracer has shown that every element is read by the iteration alone that overwrites it, in the
// same loops. What is left is the order within an iteration, which the compiler changes: statements
// of an iteration that are cut apart by a barrier, or shared out over several tasks, may run in
// another order or at the same time. A kernel in which that can happen is refused (TL203); nothing
// is changed. Being a pass of its own, it holds whatever the others do.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

void in_place(ir::Kernel& kernel);

}  // namespace tessera::tile::passes
