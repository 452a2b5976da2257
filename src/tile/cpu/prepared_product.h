// The product of a block of prepared rows (tile/cpu/prepare_rows.h) and a panel, for every layout.
#pragma once

#include "tile/cpu/loop_builder.h"
#include "tile/cpu/matmul_emitter.h"

namespace tessera::tile::cpu {

// fp32 sums of block.rows rows and of block.vectors vectors of the panel's columns from
// first_column on: element row * vectors + vector. n_units (i64): the units of a prepared row.
//
// Quantised layouts: with kI8 the sum over k is an exact integer, times the row's scale, times the
// column's; grouped_emitter.h says how groups are summed.
Values emit_prepared_product(VectorBuilder& builder, const MatmulBlock& block, llvm::Value* rows,
                             llvm::Value* panel, int first_column, llvm::Value* n_units);

}  // namespace tessera::tile::cpu
