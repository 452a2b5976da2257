#include "tile/cpu/lower_context.h"

#include <llvm/IR/Intrinsics.h>

#include "tile/ir/fail.h"
#include "tile/packed/panel_layout.h"

namespace tessera::tile::cpu {

using ir::Atom;
using ir::IndexExpr;
using llvm::Value;

cpu::Element storage(tile::Element element) {
  switch (element) {
    case tile::Element::kBF16:
      return cpu::Element::kBF16;
    case tile::Element::kF16:
      return cpu::Element::kF16;
    case tile::Element::kI32:
      return cpu::Element::kI32;
    case tile::Element::kI8:
      return cpu::Element::kI8;
    default:
      return cpu::Element::kF32;
  }
}

namespace {

Value* eval_atom(LowerContext& context, const Atom& atom) {
  llvm::IRBuilder<>& ir = context.ir();
  if (atom.kind == Atom::Kind::kName) {
    const auto found = context.names.find(atom.name);
    if (found == context.names.end()) fail_at(code::kCannotLower, {}, "no value for {}", atom.name);
    return found->second;
  }
  if (atom.kind == Atom::Kind::kElement) {
    ir::Op access;
    access.memory = atom.name;
    access.index = atom.args;
    Value* element = ir.CreateAlignedLoad(ir.getInt32Ty(), context.address(access), llvm::Align(4));
    return ir.CreateSExt(element, ir.getInt64Ty());
  }
  Value* a = context.eval(atom.args[0]);
  Value* b = context.eval(atom.args[1]);
  switch (atom.kind) {
    case Atom::Kind::kDiv:
      return ir.CreateUDiv(a, b);  // indices are not negative
    case Atom::Kind::kMod:
      return ir.CreateURem(a, b);
    case Atom::Kind::kMin:
      return ir.CreateSelect(ir.CreateICmpSLT(a, b), a, b);
    case Atom::Kind::kMax:
      return ir.CreateSelect(ir.CreateICmpSGT(a, b), a, b);
    default:
      return ir.CreateMul(a, b);
  }
}

}  // namespace

Value* LowerContext::eval(const IndexExpr& index) {
  Value* sum = nullptr;
  for (const IndexExpr::Term& term : index.terms()) {
    Value* value = eval_atom(*this, *term.atom);
    if (term.coefficient != 1) value = ir().CreateMul(value, number(term.coefficient));
    sum = sum == nullptr ? value : ir().CreateAdd(sum, value);
  }
  if (sum == nullptr) return number(index.constant());
  return index.constant() == 0 ? sum : ir().CreateAdd(sum, number(index.constant()));
}

IndexExpr LowerContext::offset_of(const ir::Op& access) const {
  const ir::Memory& memory = *kernel.find_memory(access.memory);
  IndexExpr offset = 0;
  for (std::size_t d = 0; d < memory.dims.size(); ++d) {
    offset = memory.strides.empty() ? offset * memory.dims[d] + access.index[d]
                                    : offset + access.index[d] * memory.strides[d];
  }
  return offset;
}

Value* LowerContext::address(const ir::Op& access, const IndexExpr& offset) {
  const ir::Memory& memory = *kernel.find_memory(access.memory);
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(memory.element));
  // The part that is constant is left to the instruction.
  Value* at = b.at(base.at(access.memory), eval((offset - offset.constant()) * bytes));
  return offset.constant() == 0 ? at : b.at(at, offset.constant() * bytes);
}

Value* LowerContext::stack(std::int64_t bytes) {
  llvm::IRBuilder<> at_entry(&function->getEntryBlock(), function->getEntryBlock().begin());
  llvm::AllocaInst* block = at_entry.CreateAlloca(
      at_entry.getInt8Ty(), at_entry.getInt64(static_cast<std::uint64_t>(bytes)));
  block->setAlignment(llvm::Align(64));
  return block;
}

Value* LowerContext::stack_pointer() {
  llvm::BasicBlock& entry = function->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  llvm::AllocaInst* slot = at_entry.CreateAlloca(at_entry.getPtrTy());
  at_entry.CreateAlignedStore(llvm::ConstantPointerNull::get(at_entry.getPtrTy()), slot,
                              llvm::Align(8));
  return slot;
}

void lower_block(LowerContext& context, const ir::Block& block) {
  for (const ir::Op& op : block) {
    if (op.kind == ir::Kind::kLoop) {
      context.loop(op.vars[0], [&] { lower_block(context, op.blocks[0]); });
    } else if (op.kind == ir::Kind::kNest) {
      lower_nest(context, op);
    } else if (op.kind == ir::Kind::kContract) {
      lower_contract(context, op);
    } else {
      fail_at(code::kCannotLower, op.location, "{} in a task", to_string(op.kind));
    }
  }
}

}  // namespace tessera::tile::cpu
