#include "tile/cpu/loop_builder.h"

#include <cassert>

namespace tessera::tile::cpu {

namespace {

std::int64_t signed_value(const llvm::ConstantInt* constant) {
  return constant->getSExtValue();
}

}  // namespace

Values emit_loop(llvm::IRBuilder<>& ir, llvm::Value* begin, llvm::Value* end, std::int64_t step,
                 const Values& initial, const LoopBody& body) {
  const auto* begin_constant = llvm::dyn_cast<llvm::ConstantInt>(begin);
  const auto* end_constant = llvm::dyn_cast<llvm::ConstantInt>(end);
  const bool known = begin_constant != nullptr && end_constant != nullptr;
  if (known) {
    const std::int64_t count = signed_value(end_constant) - signed_value(begin_constant);
    assert(count <= 0 || count % step == 0);
    if (count <= 0) return initial;
    if (count == step) return body(begin, initial);
  }

  llvm::BasicBlock* before = ir.GetInsertBlock();
  llvm::Function* function = before->getParent();
  llvm::LLVMContext& context = ir.getContext();
  auto* loop = llvm::BasicBlock::Create(context, "loop", function);
  auto* after = llvm::BasicBlock::Create(context, "after", function);

  // Tested at the bottom; a count that constants do not show to be positive is tested before as
  // well.
  if (known) {
    ir.CreateBr(loop);
  } else {
    ir.CreateCondBr(ir.CreateICmpSLT(begin, end), loop, after);
  }

  ir.SetInsertPoint(loop);
  llvm::PHINode* index = ir.CreatePHI(ir.getInt64Ty(), 2, "i");
  index->addIncoming(begin, before);
  std::vector<llvm::PHINode*> phis;
  Values carried;
  for (llvm::Value* value : initial) {
    phis.push_back(ir.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    carried.push_back(phis.back());
  }
  const Values next = body(index, carried);
  assert(next.size() == initial.size());
  llvm::BasicBlock* latch = ir.GetInsertBlock();
  llvm::Value* next_index = ir.CreateAdd(index, ir.getInt64(step), "", true, true);
  index->addIncoming(next_index, latch);
  for (std::size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(next[i], latch);
  ir.CreateCondBr(ir.CreateICmpSLT(next_index, end), loop, after);

  ir.SetInsertPoint(after);
  if (known) return next;
  Values result;
  for (std::size_t i = 0; i < phis.size(); ++i) {
    llvm::PHINode* phi = ir.CreatePHI(initial[i]->getType(), 2);
    phi->addIncoming(initial[i], before);
    phi->addIncoming(next[i], latch);
    result.push_back(phi);
  }
  return result;
}

void emit_loop(llvm::IRBuilder<>& ir, llvm::Value* begin, llvm::Value* end, std::int64_t step,
               const std::function<void(llvm::Value* index)>& body) {
  emit_loop(ir, begin, end, step, Values{}, [&](llvm::Value* index, const Values&) {
    body(index);
    return Values{};
  });
}

}  // namespace tessera::tile::cpu
