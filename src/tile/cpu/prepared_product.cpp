#include "tile/cpu/prepared_product.h"

#include "tile/cpu/grouped_emitter.h"
#include "tile/cpu/prepare_rows.h"

namespace tessera::tile::cpu {

using llvm::Value;

Values emit_prepared_product(VectorBuilder& b, const MatmulBlock& block, Value* rows, Value* panel,
                             int first_column, Value* n_units) {
  const PanelLayout layout = block.layout;
  if (has_groups(layout)) {
    return emit_grouped_product(b, block, rows, panel, first_column, n_units);
  }
  llvm::IRBuilder<>& ir = b.ir();
  const auto constant = [&](std::int64_t value) {
    return ir.getInt64(static_cast<std::uint64_t>(value));
  };
  const ProductPlan form = prepared_form(b.target(), layout);
  RowOperand operand{rows, constant(form.unit_bytes), constant(block.rows * form.unit_bytes)};
  operand.is_padded = true;
  Value* end = ir.CreateMul(n_units, constant(form.unit));
  MatmulEmitter emitter(b, block);
  const PanelOperand weight{panel, nullptr, first_column};
  if (layout != PanelLayout::kI8) {
    return emitter.multiply(operand, weight, constant(0), end, emitter.zeros());
  }

  // Integers start from the rows' corrections; both scales come last.
  Value* row_scales = b.at(rows, ir.CreateMul(n_units, operand.group_stride));
  Value* corrections = b.at(row_scales, std::int64_t{block.rows} * 4);
  Values sums;
  for (int row = 0; row < block.rows; ++row) {
    Value* start = b.broadcast(Element::kI32, b.at(corrections, std::int64_t{row} * 4));
    sums.insert(sums.end(), static_cast<std::size_t>(block.vectors), start);
  }
  sums = emitter.multiply(operand, weight, constant(0), end, sums);
  Value* column_scales = b.at(
      panel, ir.CreateMul(n_units, constant(static_cast<std::int64_t>(panel_group_bytes(layout)))));
  for (int row = 0; row < block.rows; ++row) {
    Value* row_scale = b.broadcast(Element::kF32, b.at(row_scales, std::int64_t{row} * 4));
    for (int v = 0; v < block.vectors; ++v) {
      const std::int64_t column = first_column + v * b.lanes();
      Value* scale = b.load(Element::kF32, b.at(column_scales, column * 4));
      Value*& sum = sums[static_cast<std::size_t>(row * block.vectors + v)];
      sum = b.mul(b.mul(b.int_to_float(sum), row_scale), scale);
    }
  }
  return sums;
}

}  // namespace tessera::tile::cpu
