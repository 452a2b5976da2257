// The inner loop of products by weights with scales for groups of 32 inputs (kI8G32, kI6G32,
// kI4G32).
//
// Within a group the products of bytes are summed exactly in 32 bits. The total of an output then
// grows group by group, in order of k, in one fp32 accumulator:
//
//   total = fma(float(integer sum), weight scale * row scale, total)
//
// whatever the block: a row's bits do not depend on how many rows are computed with it nor on the
// block's shape.
#pragma once

#include "tile/cpu/loop_builder.h"
#include "tile/cpu/matmul_emitter.h"

namespace tessera::tile::cpu {

// The totals of block.rows prepared rows (tile/cpu/prepare_rows.h) and block.vectors vectors of
// columns from first_column on of the panel, over n_groups (i64) groups: element row * vectors +
// vector.
Values emit_grouped_product(VectorBuilder& builder, const MatmulBlock& block, llvm::Value* rows,
                            llvm::Value* panel, int first_column, llvm::Value* n_groups);

}  // namespace tessera::tile::cpu
