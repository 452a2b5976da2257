// What the functions of a generated product are given: the interface between the library and
// src/tile/cpu/lower_product.cpp.
//
// A product multiplies rows with a packed weight in two steps. "prepare" copies the rows into the
// form in which the register blocks read them (rounded to bf16, or quantised); "multiply" then runs
// over panels of the weight and blocks of rows. Both take ranges, so that threads can share them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::tile {

// What becomes of the product p [rows, n].
enum class Epilogue : std::int64_t {
  kStore,      // out = p
  kAdd,        // out += p
  kScaledAdd,  // out[i] += row_scale[i] * p[i], one scale for each row
  kSwiglu,     // panels in pairs of gate and up: out = silu(p of the gate) * p of up
};
inline constexpr int kEpilogues = 4;

// Members are read by emitted code at these offsets: change the lowering with them.
struct ProductArguments {
  const float* x = nullptr;               // row i of the product is row x_index[i] of x
  const std::int32_t* x_index = nullptr;  // nullptr: row i
  std::int64_t x_stride = 0;              // in bytes
  std::byte* prepared = nullptr;          // what "prepare" writes: rows * prepared_row_bytes()
  std::int64_t rows = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;                 // columns of the output (of one of the two with kSwiglu)
  const std::byte* weight = nullptr;  // its first panel
  float* out = nullptr;               // row i goes to row out_index[i] of out
  const std::int32_t* out_index = nullptr;
  std::int64_t out_stride = 0;  // in bytes
  const float* row_scale = nullptr;
  Epilogue epilogue = Epilogue::kStore;
};

// Rows are cut into blocks: as few as possible of at most max_block_rows, which differ by at most
// one row, the larger ones first. A block of prepared rows lies at first row * prepared row bytes.
struct ProductPlan {
  std::int64_t max_block_rows = 0;
  // A prepared row takes unit_bytes for every `unit` inputs (an incomplete unit is filled with
  // zeros), and row_bytes besides.
  std::int64_t unit = 0;
  std::int64_t unit_bytes = 0;
  std::int64_t row_bytes = 0;

  std::int64_t prepared_row_bytes(std::int64_t k) const {
    return (k + unit - 1) / unit * unit_bytes + row_bytes;
  }
  std::int64_t blocks(std::int64_t rows) const {
    return (rows + max_block_rows - 1) / max_block_rows;
  }
  // Of a block, or of its end with block = blocks(rows).
  std::int64_t first_row(std::int64_t rows, std::int64_t block) const {
    const std::int64_t n = blocks(rows);
    const std::int64_t larger = rows % n;
    return block * (rows / n) + (block < larger ? block : larger);
  }
};

// "plan".
using ProductPlanFunction = void(ProductPlan*);
// "prepare": blocks of rows [begin, end).
using PrepareFunction = void(const ProductArguments*, std::int64_t begin, std::int64_t end);
// "multiply": columns of strips [strip_begin, strip_end) for blocks of rows [block_begin,
// block_end). A strip is a panel, or a pair of panels with kSwiglu.
using MultiplyFunction = void(const ProductArguments*, std::int64_t strip_begin,
                              std::int64_t strip_end, std::int64_t block_begin,
                              std::int64_t block_end);

}  // namespace tessera::tile
