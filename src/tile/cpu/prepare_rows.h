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
//   layouts with groups: for every 32 inputs [8][R][4], then [R] scales and [R] corrections
//
// Quantised rows are signed bytes, value = scale * byte; scales are fp32. The weights' bytes are
// stored with an offset z (stored_offset), and the correction is -z * the sum of the row's bytes
// (i32), from which a block's integer sums start.
#pragma once

#include <functional>

#include "tile/cpu/vector_builder.h"
#include "tile/packed/panel_layout.h"
#include "tile/product/product_arguments.h"

namespace tessera::tile::cpu {

// The sizes of a prepared row; max_block_rows is left alone.
ProductPlan prepared_form(const Target& target, PanelLayout layout);

// A block of rows to prepare; i64 values and addresses.
struct PreparedBlock {
  llvm::Value* memory = nullptr;  // where it goes
  llvm::Value* rows = nullptr;    // R
  llvm::Value* k = nullptr;
  // The address of row r's first value; rows are contiguous fp32.
  std::function<llvm::Value*(llvm::Value* r)> source;
};

// Copies or quantises the rows of a block. With quantised layouts the largest magnitude of a row or
// group becomes 127: scale = largest / 127, byte = x * (127 / largest) to nearest even. NaN or
// infinity in a row or group makes every output that it takes part in NaN or infinite.
void emit_prepare_block(VectorBuilder& builder, PanelLayout layout, const PreparedBlock& block);

// Its part for quantised layouts.
void emit_quantise_block(VectorBuilder& builder, PanelLayout layout, const PreparedBlock& block);

// Inputs of all rows that are prepared before the next ones: the lines that they share are then
// still in the first-level cache. A multiple of every unit and register.
inline constexpr std::int64_t kPreparedChunk = 256;

// body(r, begin, end) for every row and chunk of inputs [begin, end), chunk by chunk.
void for_chunks(
    VectorBuilder& builder, const PreparedBlock& block,
    const std::function<void(llvm::Value* r, llvm::Value* begin, llvm::Value* end)>& body);

}  // namespace tessera::tile::cpu
