// The inner loop of every matmul: a block of rows times a few vectors of output columns of a packed
// weight (tile/packed/panel_layout.h), summed over k in registers.
//
// The sum of an output runs over k in order, in one accumulator, whatever the block: a row's bits
// do not depend on how many rows are computed with it, on the block's shape or on how k is cut into
// ranges.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tile/cpu/loop_builder.h"
#include "tile/cpu/vector_builder.h"
#include "tile/packed/panel_layout.h"

namespace tessera::tile::cpu {

// A register block.
struct MatmulBlock {
  PanelLayout layout = PanelLayout::kF32;
  int rows = 1;
  int vectors = 1;         // of target.lanes() columns
  int k_unroll = 1;        // k groups in one iteration
  int prefetch_bytes = 0;  // how far ahead the weights are prefetched; 0: by hardware alone
};

// The block that measured best for a matmul of this many rows in all; rows is the most that one
// block should take, so that m rows are cut into ceil(m / rows) blocks.
MatmulBlock choose_block(const Target& target, PanelLayout layout, std::int64_t rows);

// m rows cut into blocks of at most max_rows that differ by at most one, the larger ones first.
std::vector<int> cut_rows(std::int64_t m, int max_rows);

// What the block reads its left operand as: bf16 where bf16 weights meet a bf16 dot product, else
// fp32 (bf16 activations are then widened, exactly, before).
Element activation_element(const Target& target, PanelLayout layout);

// The left operand: element (r, k) lies at
//   base + r * row_stride + (k / g) * group_stride + (k % g) * size,  g = k_interleave(layout)
// in bytes. Row-major rows of K elements: row_stride K * size, group_stride g * size. Packed for a
// block of R rows, [K/g][R][g], which keeps many rows out of each other's cache sets: row_stride g
// * size, group_stride R * g * size (see emit_pack_rows).
struct RowOperand {
  llvm::Value* base = nullptr;
  llvm::Value* row_stride = nullptr;    // i64
  llvm::Value* group_stride = nullptr;  // i64
  bool is_padded = false;               // an incomplete last group is filled up with zeros
};

// The right operand.
struct PanelOperand {
  llvm::Value* panel = nullptr;  // address of the panel that holds the first column
  llvm::Value* panel_stride =
      nullptr;           // i64 bytes to the next panel; needed if the block spans two
  int first_column = 0;  // of the block, within the panel; a multiple of lanes()
};

// Accumulators, row by row: element row * vectors + vector.
class MatmulEmitter {
 public:
  MatmulEmitter(VectorBuilder& builder, const MatmulBlock& block) : b_(builder), block_(block) {}

  // Zeros, to start from; a bias or a stored partial sum serves as well. With kI8 the sums are
  // int32 and start from the rows' corrections instead (prepare_rows.h).
  Values zeros();

  // sums + the product over inputs [k_begin, k_end) (i64 values). k_begin must be a multiple of the
  // interleave; k_end too, or be the end of the operands (an odd last input reads nothing beyond
  // it).
  Values multiply(const RowOperand& rows, const PanelOperand& weight, llvm::Value* k_begin,
                  llvm::Value* k_end, Values sums);

  // Calls epilogue(row, vector, sum) for each accumulator, in order.
  using Epilogue = std::function<void(int row, int vector, llvm::Value* sum)>;
  void finish(const Values& sums, const Epilogue& epilogue);

 private:
  struct Cursor;
  Values step(const Cursor& at, int unroll, bool half_group, Values sums);
  void multiply_group(const Cursor& at, int group, bool half_group, Values& sums);
  void multiply_dot(const Cursor& at, int group, bool half_group, Values& sums);
  void multiply_widened(const Cursor& at, int group, bool half_group, Values& sums);

  VectorBuilder& b_;
  MatmulBlock block_;
};

// Copies rows [rows][k] (row-major, row_stride bytes apart, of element `from`) into the packed form
// of RowOperand for a block of `rows` rows, converting to `to`; an incomplete last group is filled
// with zeros. Returns the strides with base = packed.
RowOperand emit_pack_rows(VectorBuilder& builder, int rows, int interleave, llvm::Value* k,
                          Element from, llvm::Value* source, llvm::Value* row_stride, Element to,
                          llvm::Value* packed);

}  // namespace tessera::tile::cpu
