// Counted loops in LLVM IR.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <llvm/IR/IRBuilder.h>

namespace tessera::tile::cpu {

using Values = std::vector<llvm::Value*>;

// The body of one iteration: gets the index and the carried values, returns the next ones.
using LoopBody = std::function<Values(llvm::Value* index, const Values& carried)>;

// for (i = begin; i < end; i += step) carried = body(i, carried); returns what is carried at the
// end. The indices are i64 and end - begin must be a multiple of step. The builder stands behind
// the loop afterwards. A loop that constants show to be empty emits nothing, one of a single
// iteration no branch.
Values emit_loop(llvm::IRBuilder<>& ir, llvm::Value* begin, llvm::Value* end, std::int64_t step,
                 const Values& initial, const LoopBody& body);

// Without carried values.
void emit_loop(llvm::IRBuilder<>& ir, llvm::Value* begin, llvm::Value* end, std::int64_t step,
               const std::function<void(llvm::Value* index)>& body);

}  // namespace tessera::tile::cpu
