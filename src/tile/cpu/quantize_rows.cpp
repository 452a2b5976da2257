// emit_quantize_rows: activations as int8 for quantised weights.
#include <llvm/IR/Intrinsics.h>

#include "tile/cpu/matmul_emitter.h"

namespace tessera::tile::cpu {

using llvm::Value;

namespace {

constexpr int kGroup = 4;  // k_interleave(PanelLayout::kI8)

Value* magnitude(VectorBuilder& b, Value* v) {
  return b.ir().CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
}

// Calls body(first element, mask or nullptr) for the k elements of a row, a register at a time.
Values for_elements(VectorBuilder& b, Value* k, const Values& initial,
                    const std::function<Values(Value* i, Value* mask, const Values&)>& body) {
  llvm::IRBuilder<>& ir = b.ir();
  const auto lanes = static_cast<std::uint64_t>(b.lanes());
  Value* whole = ir.CreateSub(k, ir.CreateURem(k, ir.getInt64(lanes)));
  const Values carried =
      emit_loop(ir, ir.getInt64(0), whole, b.lanes(), initial,
                [&](Value* i, const Values& values) { return body(i, nullptr, values); });
  // The rest, a group at a time, so that no group beyond the last is written.
  const auto group = static_cast<std::uint64_t>(kGroup);
  Value* end =
      ir.CreateMul(ir.CreateUDiv(ir.CreateAdd(k, ir.getInt64(group - 1)), ir.getInt64(group)),
                   ir.getInt64(group));
  return emit_loop(ir, whole, end, kGroup, carried, [&](Value* i, const Values& values) {
    Value* left =
        ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateSub(k, i), ir.getInt64(kGroup));
    return body(i, b.first_lanes(left), values);
  });
}

}  // namespace

RowOperand emit_quantize_rows(VectorBuilder& b, int rows, Value* k, Element from, Value* source,
                              Value* row_stride, Value* packed, Value* scales, Value* sums) {
  llvm::IRBuilder<>& ir = b.ir();
  const auto constant = [&](std::int64_t value) {
    return ir.getInt64(static_cast<std::uint64_t>(value));
  };
  for (int r = 0; r < rows; ++r) {
    Value* row = b.at(source, ir.CreateMul(row_stride, constant(r)));
    const auto load = [&](Value* i, Value* mask) {
      return b.load(from, b.at(row, ir.CreateMul(i, constant(element_bytes(from)))), mask);
    };
    Value* largest =
        b.max(for_elements(b, k, {b.zero()}, [&](Value* i, Value* mask, const Values& carried) {
          return Values{b.maximum(carried[0], magnitude(b, load(i, mask)))};
        })[0]);
    Value* zero = llvm::ConstantFP::get(ir.getFloatTy(), 0.0);
    Value* most = llvm::ConstantFP::get(ir.getFloatTy(), 127.0);
    Value* inverse = ir.CreateSelect(ir.CreateFCmpOEQ(largest, zero), zero, b.div(most, largest));
    b.store_scalar(Element::kF32, b.div(largest, most), b.at(scales, std::int64_t{r} * 4));

    const Values total =
        for_elements(b, k, {b.int_constant(0)}, [&](Value* i, Value* mask, const Values& carried) {
          Value* quantised = b.float_to_int(b.mul(load(i, mask), b.splat(inverse)));
          auto* groups = llvm::FixedVectorType::get(ir.getInt32Ty(),
                                                    static_cast<unsigned>(b.lanes() / kGroup));
          Value* bits = ir.CreateBitCast(b.narrow(Element::kI8, quantised), groups);
          Value* first = ir.CreateUDiv(i, constant(kGroup));
          for (int g = 0; g < (mask == nullptr ? b.lanes() / kGroup : 1); ++g) {
            Value* slot = ir.CreateAdd(
                ir.CreateMul(ir.CreateAdd(first, constant(g)), constant(rows)), constant(r));
            ir.CreateAlignedStore(ir.CreateExtractElement(bits, static_cast<std::uint64_t>(g)),
                                  b.at(packed, ir.CreateMul(slot, constant(kGroup))),
                                  llvm::Align(1));
          }
          return Values{ir.CreateAdd(carried[0], quantised)};
        });
    b.store_scalar(Element::kI32, ir.CreateAddReduce(total[0]), b.at(sums, std::int64_t{r} * 4));
  }
  return {packed, constant(kGroup), constant(std::int64_t{rows} * kGroup)};
}

}  // namespace tessera::tile::cpu
