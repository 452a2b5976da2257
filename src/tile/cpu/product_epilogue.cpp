#include "tile/cpu/product_epilogue.h"

#include "tile/cpu/loop_builder.h"

namespace tessera::tile::cpu {

using llvm::Value;

Value* load_pointer(VectorBuilder& b, Value* arguments, std::size_t offset) {
  return b.ir().CreateAlignedLoad(
      b.ir().getPtrTy(), b.at(arguments, static_cast<std::int64_t>(offset)), llvm::Align(8));
}

Value* load_number(VectorBuilder& b, Value* arguments, std::size_t offset) {
  return b.ir().CreateAlignedLoad(
      b.ir().getInt64Ty(), b.at(arguments, static_cast<std::int64_t>(offset)), llvm::Align(8));
}

Value* indexed_row(VectorBuilder& b, Value* index, Value* row) {
  llvm::IRBuilder<>& ir = b.ir();
  llvm::BasicBlock* before = ir.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* listed = llvm::BasicBlock::Create(ir.getContext(), "listed", function);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "row", function);
  ir.CreateCondBr(ir.CreateIsNull(index), after, listed);
  ir.SetInsertPoint(listed);
  Value* entry = ir.CreateAlignedLoad(
      ir.getInt32Ty(), b.at(index, ir.CreateMul(row, ir.getInt64(4))), llvm::Align(4));
  Value* found = ir.CreateSExt(entry, ir.getInt64Ty());
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
  llvm::PHINode* result = ir.CreatePHI(ir.getInt64Ty(), 2);
  result->addIncoming(row, before);
  result->addIncoming(found, listed);
  return result;
}

namespace {

// silu(gate) * up.
Value* swiglu(VectorBuilder& b, Value* gate, Value* up) {
  Value* one = b.constant(1.0f);
  return b.mul(b.div(gate, b.add(one, b.exp(b.neg(gate)))), up);
}

}  // namespace

void emit_epilogue(VectorBuilder& b, Epilogue epilogue, const EpilogueBlock& block) {
  llvm::IRBuilder<>& ir = b.ir();
  const auto constant = [&](std::int64_t value) {
    return ir.getInt64(static_cast<std::uint64_t>(value));
  };
  Value* out = load_pointer(b, block.arguments, offsetof(ProductArguments, out));
  Value* out_index = load_pointer(b, block.arguments, offsetof(ProductArguments, out_index));
  Value* out_stride = load_number(b, block.arguments, offsetof(ProductArguments, out_stride));
  Value* scales = load_pointer(b, block.arguments, offsetof(ProductArguments, row_scale));
  Value* n = load_number(b, block.arguments, offsetof(ProductArguments, n));
  Value* first_column = ir.CreateMul(block.strip, constant(kPanelColumns));

  emit_loop(ir, constant(0), block.rows, 1, [&](Value* r) {
    Value* row = ir.CreateAdd(block.first_row, r);
    Value* scale = epilogue == Epilogue::kScaledAdd
                       ? b.broadcast(Element::kF32, b.at(scales, ir.CreateMul(row, constant(4))))
                       : nullptr;
    Value* to = b.at(out, ir.CreateMul(indexed_row(b, out_index, row), out_stride));
    Value* from = ir.CreateMul(r, constant(kTileRowBytes));
    // The columns that are left, a register at a time.
    Value* left = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateSub(n, first_column),
                                           constant(kPanelColumns));
    Value* whole = ir.CreateSub(left, ir.CreateURem(left, constant(b.lanes())));
    const auto columns = [&](Value* column, Value* mask) {
      Value* place = ir.CreateAdd(from, ir.CreateMul(column, constant(4)));
      Value* target = b.at(to, ir.CreateMul(ir.CreateAdd(first_column, column), constant(4)));
      Value* result = b.load(Element::kF32, b.at(block.tile, place));
      if (epilogue == Epilogue::kSwiglu) {
        result = swiglu(b, result, b.load(Element::kF32, b.at(block.second_tile, place)));
      } else if (epilogue == Epilogue::kAdd) {
        result = b.add(b.load(Element::kF32, target, mask), result);
      } else if (epilogue == Epilogue::kScaledAdd) {
        result = b.mul_add(scale, result, b.load(Element::kF32, target, mask));
      }
      b.store(Element::kF32, result, target, mask);
    };
    emit_loop(ir, constant(0), whole, b.lanes(), [&](Value* column) { columns(column, nullptr); });
    emit_loop(ir, whole, left, b.lanes(),
              [&](Value* column) { columns(column, b.first_lanes(ir.CreateSub(left, column))); });
  });
}

}  // namespace tessera::tile::cpu
