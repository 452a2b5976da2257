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
  RowWriter(VectorBuilder& b, PanelLayout layout, Value* source, Value* k,
            const PreparedPlace& place)
      : b_(b),
        ir_(b.ir()),
        layout_(layout),
        element_(activation_element(b.target(), layout)),
        form_(prepared_form(b.target(), layout)),
        source_(source),
        k_(k) {
    out_ = b.at(place.block, ir_.CreateMul(place.row, constant(form_.unit_bytes)));
    stride_ = ir_.CreateMul(place.block_rows, constant(form_.unit_bytes));
  }

  void write() {
    const std::int64_t step = form_.unit * b_.lanes();
    Value* whole = ir_.CreateSub(k_, ir_.CreateURem(k_, constant(step)));
    emit_loop(ir_, constant(0), whole, step,
              [&](Value* i) { vector(i, ir_.CreateUDiv(i, constant(form_.unit)), b_.lanes()); });
    emit_loop(ir_, whole, ir_.CreateSub(k_, ir_.CreateURem(k_, constant(form_.unit))), form_.unit,
              [&](Value* i) { vector(i, ir_.CreateUDiv(i, constant(form_.unit)), 1); });
    if (form_.unit == 1) return;
    // An odd last input.
    Value* last = ir_.CreateSub(k_, ir_.CreateURem(k_, constant(form_.unit)));
    emit_loop(ir_, last, k_, form_.unit, [&](Value* i) {
      Value* unit = unit_address(ir_.CreateUDiv(i, constant(form_.unit)));
      b_.store_scalar(element_, rounded(b_.load_scalar(Element::kF32, input(i))), unit);
      b_.store_scalar(element_, llvm::ConstantFP::get(ir_.getFloatTy(), 0.0),
                      b_.at(unit, element_bytes(element_)));
    });
  }

 private:
  Value* constant(std::int64_t value) { return ir_.getInt64(static_cast<std::uint64_t>(value)); }
  Value* input(Value* i) { return b_.at(source_, ir_.CreateMul(i, constant(4))); }
  Value* unit_address(Value* unit) { return b_.at(out_, ir_.CreateMul(unit, stride_)); }

  // bf16 weights multiply rows rounded to bf16 on every CPU.
  Value* rounded(Value* v) {
    return layout_ == PanelLayout::kBF16 ? b_.round(Element::kBF16, v) : v;
  }

  // `units` units from input i on; a unit moves as one integer.
  void vector(Value* i, Value* unit, int units) {
    if (units == 1) {
      Value* to = unit_address(unit);
      for (int e = 0; e < form_.unit; ++e) {
        Value* value = b_.load_scalar(Element::kF32, b_.at(input(i), std::int64_t{e} * 4));
        b_.store_scalar(element_, rounded(value),
                        b_.at(to, std::int64_t{e} * element_bytes(element_)));
      }
      return;
    }
    Value* bits = nullptr;
    if (form_.unit == 1) {
      bits = b_.narrow(element_, b_.load(Element::kF32, input(i)));
    } else {
      VectorBuilder::Pair pair = b_.load_interleaved(Element::kF32, input(i));
      bits = b_.pair_bits(element_, {rounded(pair[0]), rounded(pair[1])});
    }
    Value* to = unit_address(unit);
    for (int lane = 0; lane < units; ++lane) {
      ir_.CreateAlignedStore(ir_.CreateExtractElement(bits, static_cast<std::uint64_t>(lane)), to,
                             llvm::Align(static_cast<std::uint64_t>(element_bytes(element_))));
      if (lane + 1 < units) to = b_.at(to, stride_);
    }
  }

  VectorBuilder& b_;
  llvm::IRBuilder<>& ir_;
  PanelLayout layout_;
  Element element_;
  ProductPlan form_;
  Value* source_;
  Value* k_;
  Value* out_;
  Value* stride_;
};

}  // namespace

void emit_prepare_row(VectorBuilder& b, PanelLayout layout, Value* source, Value* k,
                      const PreparedPlace& place) {
  if (is_quantised(layout)) return emit_quantise_row(b, layout, source, k, place);
  RowWriter(b, layout, source, k, place).write();
}

}  // namespace tessera::tile::cpu
