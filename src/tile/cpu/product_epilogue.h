// What a generated product does with a block of sums (tile/product/product_arguments.h).
#pragma once

#include "tile/cpu/vector_builder.h"
#include "tile/packed/panel_layout.h"
#include "tile/product/product_arguments.h"

namespace tessera::tile::cpu {

// Sums of one panel, fp32 [block rows][32], aligned to 64.
inline constexpr std::int64_t kTileRowBytes = std::int64_t{kPanelColumns} * 4;

struct EpilogueBlock {
  llvm::Value* arguments = nullptr;  // a ProductArguments
  llvm::Value* tile = nullptr;
  llvm::Value* second_tile = nullptr;  // the panel of up with kSwiglu
  llvm::Value* strip = nullptr;        // i64: columns from 32 * strip on
  llvm::Value* first_row = nullptr;    // i64, of the product
  llvm::Value* rows = nullptr;         // i64
};

// Emits one epilogue for the rows of a block, columns beyond n left out.
void emit_epilogue(VectorBuilder& builder, Epilogue epilogue, const EpilogueBlock& block);

// A member of the ProductArguments at `arguments`.
llvm::Value* load_pointer(VectorBuilder& builder, llvm::Value* arguments, std::size_t offset);
llvm::Value* load_number(VectorBuilder& builder, llvm::Value* arguments, std::size_t offset);

// The row that an index list names: index[row], or row where index is null.
llvm::Value* indexed_row(VectorBuilder& builder, llvm::Value* index, llvm::Value* row);

}  // namespace tessera::tile::cpu
