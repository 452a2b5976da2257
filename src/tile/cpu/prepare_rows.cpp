#include "tile/cpu/prepare_rows.h"

#include "tile/cpu/loop_builder.h"
#include "tile/cpu/matmul_emitter.h"

namespace tessera::tile::cpu {

using llvm::Value;

ProductPlan prepared_form(const Target& target, PanelLayout layout) {
  ProductPlan plan;
  plan.unit = k_interleave(layout);
  plan.unit_bytes = plan.unit * element_bytes(activation_element(target, layout));
  const std::int64_t numbers = 8;  // a scale and a correction
  if (layout == PanelLayout::kI8) plan.row_bytes = numbers;
  if (has_groups(layout)) plan.unit_bytes += numbers;
  return plan;
}

namespace {

class RowWriter {
 public:
  RowWriter(VectorBuilder& b, PanelLayout layout, const PreparedBlock& block)
      : b_(b),
        ir_(b.ir()),
        layout_(layout),
        element_(activation_element(b.target(), layout)),
        form_(prepared_form(b.target(), layout)),
        block_(block),
        stride_(ir_.CreateMul(block.rows, constant(form_.unit_bytes))) {}

  // Inputs [begin, end) of row r; begin is a multiple of the unit.
  void write(Value* r, Value* begin, Value* end) {
    source_ = block_.source(r);
    out_ = b_.at(block_.memory, ir_.CreateMul(r, constant(form_.unit_bytes)));
    const std::int64_t step = form_.unit * b_.lanes();
    Value* count = ir_.CreateSub(end, begin);
    Value* vectors_end = ir_.CreateSub(end, ir_.CreateURem(count, constant(step)));
    Value* units_end = ir_.CreateSub(end, ir_.CreateURem(count, constant(form_.unit)));
    emit_loop(ir_, begin, vectors_end, step, [&](Value* i) { write_vector(i); });
    emit_loop(ir_, vectors_end, units_end, form_.unit, [&](Value* i) {
      for (int e = 0; e < form_.unit; ++e) write_one(i, e, load_one(i, e));
    });
    if (form_.unit == 1) return;
    // An odd last input.
    emit_loop(ir_, units_end, end, form_.unit, [&](Value* i) {
      write_one(i, 0, load_one(i, 0));
      write_one(i, 1, llvm::ConstantFP::get(ir_.getFloatTy(), 0.0));
    });
  }

 private:
  Value* constant(std::int64_t value) { return ir_.getInt64(static_cast<std::uint64_t>(value)); }
  Value* input(Value* i) { return b_.at(source_, ir_.CreateMul(i, constant(4))); }
  Value* unit_address(Value* i) {
    return b_.at(out_, ir_.CreateMul(ir_.CreateUDiv(i, constant(form_.unit)), stride_));
  }

  // bf16 weights multiply rows rounded to bf16 on every CPU.
  Value* rounded(Value* v) {
    return layout_ == PanelLayout::kBF16 ? b_.round(Element::kBF16, v) : v;
  }

  Value* load_one(Value* i, int e) {
    return rounded(b_.load_scalar(Element::kF32, b_.at(input(i), std::int64_t{e} * 4)));
  }
  void write_one(Value* i, int e, Value* value) {
    b_.store_scalar(element_, value,
                    b_.at(unit_address(i), std::int64_t{e} * element_bytes(element_)));
  }

  // As many units from input i on as a register has lanes; a unit moves as one integer.
  void write_vector(Value* i) {
    Value* bits = nullptr;
    if (form_.unit == 1) {
      bits = b_.narrow(element_, b_.load(Element::kF32, input(i)));
    } else {
      const VectorBuilder::Pair pair = b_.load_interleaved(Element::kF32, input(i));
      bits = b_.pair_bits(element_, {rounded(pair[0]), rounded(pair[1])});
    }
    Value* to = unit_address(i);
    for (int lane = 0; lane < b_.lanes(); ++lane) {
      ir_.CreateAlignedStore(ir_.CreateExtractElement(bits, static_cast<std::uint64_t>(lane)), to,
                             llvm::Align(static_cast<std::uint64_t>(element_bytes(element_))));
      if (lane + 1 < b_.lanes()) to = b_.at(to, stride_);
    }
  }

  VectorBuilder& b_;
  llvm::IRBuilder<>& ir_;
  PanelLayout layout_;
  Element element_;
  ProductPlan form_;
  const PreparedBlock& block_;
  Value* stride_;
  Value* source_ = nullptr;
  Value* out_ = nullptr;
};

}  // namespace

void for_chunks(VectorBuilder& b, const PreparedBlock& block,
                const std::function<void(Value* r, Value* begin, Value* end)>& body) {
  llvm::IRBuilder<>& ir = b.ir();
  Value* size = ir.getInt64(kPreparedChunk);
  Value* chunks = ir.CreateUDiv(ir.CreateAdd(block.k, ir.getInt64(kPreparedChunk - 1)), size);
  emit_loop(ir, ir.getInt64(0), chunks, 1, [&](Value* chunk) {
    Value* begin = ir.CreateMul(chunk, size);
    Value* end =
        ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateAdd(begin, size), block.k);
    emit_loop(ir, ir.getInt64(0), block.rows, 1, [&](Value* r) { body(r, begin, end); });
  });
}

void emit_prepare_block(VectorBuilder& b, PanelLayout layout, const PreparedBlock& block) {
  if (is_quantised(layout)) return emit_quantise_block(b, layout, block);
  RowWriter writer(b, layout, block);
  for_chunks(b, block, [&](Value* r, Value* begin, Value* end) { writer.write(r, begin, end); });
}

}  // namespace tessera::tile::cpu
