// emit_pack_rows: activations into the order in which a block of many rows reads them.
#include "tile/cpu/matmul_emitter.h"

namespace tessera::tile::cpu {

using llvm::Value;

RowOperand emit_pack_rows(VectorBuilder& b, int rows, int interleave, Value* k, Element from,
                          Value* source, Value* row_stride, Element to, Value* packed) {
  llvm::IRBuilder<>& ir = b.ir();
  const int from_size = element_bytes(from);
  const int to_size = element_bytes(to);
  const std::int64_t group_bytes = std::int64_t{rows} * interleave * to_size;
  const auto constant = [&](std::int64_t value) {
    return ir.getInt64(static_cast<std::uint64_t>(value));
  };

  Value* groups = ir.CreateUDiv(k, constant(interleave));
  Value* vector_groups = ir.CreateSub(groups, ir.CreateURem(groups, constant(b.lanes())));
  for (int r = 0; r < rows; ++r) {
    Value* row = b.at(source, ir.CreateMul(row_stride, constant(r)));
    Value* out = b.at(packed, std::int64_t{r} * interleave * to_size);
    const auto group_in = [&](Value* group) {
      return b.at(row, ir.CreateMul(group, constant(std::int64_t{interleave} * from_size)));
    };
    const auto group_out = [&](Value* group) {
      return b.at(out, ir.CreateMul(group, constant(group_bytes)));
    };

    // As many groups at a time as a register has lanes; the elements of a group move as one
    // integer.
    emit_loop(ir, ir.getInt64(0), vector_groups, b.lanes(), [&](Value* group) {
      Value* bits = nullptr;
      if (interleave == 1) {
        bits = b.narrow(to, b.load(from, group_in(group)));
      } else {
        const VectorBuilder::Pair pair = b.load_interleaved(from, group_in(group));
        bits = b.pair_bits(to, pair);
      }
      for (int lane = 0; lane < b.lanes(); ++lane) {
        ir.CreateAlignedStore(ir.CreateExtractElement(bits, static_cast<std::uint64_t>(lane)),
                              b.at(group_out(group), lane * group_bytes),
                              llvm::Align(static_cast<std::uint64_t>(to_size)));
      }
    });
    emit_loop(ir, vector_groups, groups, 1, [&](Value* group) {
      for (int e = 0; e < interleave; ++e) {
        b.store_scalar(to, b.load_scalar(from, b.at(group_in(group), e * from_size)),
                       b.at(group_out(group), e * to_size));
      }
    });
    if (interleave > 1) {
      Value* padded =
          ir.CreateUDiv(ir.CreateAdd(k, constant(interleave - 1)), constant(interleave));
      emit_loop(ir, groups, padded, 1, [&](Value* group) {
        b.store_scalar(to, b.load_scalar(from, group_in(group)), group_out(group));
        b.store_scalar(to, llvm::ConstantFP::get(ir.getFloatTy(), 0.0),
                       b.at(group_out(group), to_size));
      });
    }
  }
  return {packed, constant(std::int64_t{interleave} * to_size), constant(group_bytes)};
}

}  // namespace tessera::tile::cpu
