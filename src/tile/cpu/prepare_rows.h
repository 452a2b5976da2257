// The left operand of a generated product: rows of fp32 in the form in which a register block reads
// them.
//
// The rows of a block of R lie together, unit by unit, so that a block reads its memory front to
// back and no row's address is needed but the first one's. A unit is what a step of the block takes
// of one row:
//
//   f32, f16   [k][R]              fp32
//   bf16       [k/2][R][2]         bf16; fp32 holding rounded values on a CPU without the bf16 dot
//                                  product
//   i8         [k/4][R][4], then [R] scales and [R] corrections
//   i8g32, i4g32   for every group of 32 inputs: [8][R][4], then [R] scales and [R] corrections
//
// Quantised rows are signed bytes, value = scale * byte; scales are fp32. The weights' bytes are
// stored with an offset z (128 for i8, 8 for i4), and the correction is -z * the sum of the row's
// bytes (i32), from which a block's integer sums start.
#pragma once

#include "tile/cpu/vector_builder.h"
#include "tile/packed/panel_layout.h"
#include "tile/product/product_arguments.h"

namespace tessera::tile::cpu {

// The sizes of a prepared row; max_block_rows is left alone.
ProductPlan prepared_form(const Target& target, PanelLayout layout);

// Where a row goes: the block's first byte, the row's number in it, and R; i64 values.
struct PreparedPlace {
  llvm::Value* block = nullptr;
  llvm::Value* row = nullptr;
  llvm::Value* block_rows = nullptr;
};

// Copies or quantises k (i64) contiguous fp32 values at `source` to their place.
void emit_prepare_row(VectorBuilder& builder, PanelLayout layout, llvm::Value* source,
                      llvm::Value* k, const PreparedPlace& place);
// Its part for quantised layouts. The largest magnitude of the row or group becomes 127: scale =
// largest / 127, byte = x * (127 / largest) to nearest even. NaN or infinity in a row or group
// makes every output that it takes part in NaN.
void emit_quantise_row(VectorBuilder& builder, PanelLayout layout, llvm::Value* source,
                       llvm::Value* k, const PreparedPlace& place);

}  // namespace tessera::tile::cpu
