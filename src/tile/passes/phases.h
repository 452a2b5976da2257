// phases: what must wait for what.
//
// Threads share the columns of a matmul, so whatever needs a whole row of its result must wait
// until all of them are done; so must whatever reads a local tensor. Everything else can run in one
// go. This pass gives each statement the number of the phase it belongs to: one more than what it
// must wait for, the same as what it may follow within one task. Loops are cut accordingly (their
// iterations are independent), each phase gets its own copy of those that its statements need, and
// values that cross a barrier get memory with room for every iteration.
//
// Within a phase, statements of the same loops stay together in one loop, and where they all walk
// over the same rows, row by row, so that a row is still in the cache when its next statement
// comes.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

void phases(ir::Kernel& kernel);

}  // namespace tessera::tile::passes
