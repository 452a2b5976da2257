// scratch: where intermediate values live.
//
// Two kinds of memory are handed out. What lives within a task (reductions, products of small
// tiles) gets an offset in the task's own few kilobytes. What crosses a barrier (locals, matmul
// results that are not folded) gets an offset in one block of the whole call. In both, a linear
// scan in program order lets memory be used again once its last reader is done: in the call's block
// by phases, since the end of a phase is when all threads have finished with it.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

inline constexpr std::int64_t kScratchAlignment = 64;

void scratch(ir::Kernel& kernel);

// Bytes of the call's block and of a task's, after the pass.
ir::IndexExpr call_scratch_bytes(const ir::Kernel& kernel);
std::int64_t task_scratch_bytes(const ir::Kernel& kernel);

}  // namespace tessera::tile::passes
