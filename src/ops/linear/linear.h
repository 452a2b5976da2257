// Linear layers with packed weights, by generated products (tile/product): y = x * w^T for any
// number of rows, with what usually follows it.
//
// Unlike matmul(), which multiplies weights as the checkpoint stores them, a layer packs its weight
// once and then reads one copy front to back for one row and for 512. A row's result has the same
// bits whatever rows are computed with it and on however many threads.
#pragma once

#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "ops/executor.h"
#include "ops/rows.h"
#include "ops/weight.h"
#include "tile/packed/panel_layout.h"
#include "tile/product/product_arguments.h"

namespace tessera::ops {

using tile::Epilogue;
using tile::cpu::PanelLayout;

// Owns the packed weight [n, k] of a linear layer, or those of a gate and an up projection, both
// [n, k], for Epilogue::kSwiglu; or nothing (n = 0).
class PackedLinear {
 public:
  PackedLinear() = default;
  // Packing runs on all of the executor's threads; it rounds (to nearest even) or quantises.
  // memory: packed_bytes() bytes, aligned to 64, that outlive this; nullptr takes its own. Weights
  // of less than 2 MB, such as experts, belong side by side in one large Buffer: on pages of 4 KB
  // of their own they are read at two thirds of the speed.
  PackedLinear(const WeightView& w, PanelLayout layout, Executor& executor,
               std::byte* memory = nullptr);
  PackedLinear(const WeightView& gate, const WeightView& up, PanelLayout layout, Executor& executor,
               std::byte* memory = nullptr);
  // n_weights (1, or 2 for gate and up) weights [n, k] that were packed before, by strips:
  // packed_bytes() bytes, aligned to 64, that outlive this.
  PackedLinear(PanelLayout layout, std::int64_t n, std::int64_t k, int n_weights,
               const std::byte* packed)
      : shape_{layout, n, k}, n_weights_(n_weights), data_(packed) {}
  // Of n_weights (1, or 2 for gate and up) weights [n, k].
  static std::size_t packed_bytes(PanelLayout layout, std::int64_t n, std::int64_t k,
                                  int n_weights);

  bool empty() const { return shape_.n == 0; }
  PanelLayout layout() const { return shape_.layout; }
  std::int64_t n() const { return shape_.n; }
  std::int64_t k() const { return shape_.k; }
  bool is_gate_up() const { return n_weights_ == 2; }
  std::size_t bytes() const { return static_cast<std::size_t>(strips()) * strip_bytes(); }
  const std::byte* data() const { return data_; }

  // Panels of the output: one strip of columns each (two panels with gate and up).
  std::int64_t strips() const { return shape_.panels(); }
  std::size_t strip_bytes() const {
    return static_cast<std::size_t>(n_weights_) * shape_.panel_bytes();
  }
  // The exact values that were packed, row-major [n, k]; which: 0, or 1 for up.
  void unpack(int which, double* rows) const;

 private:
  PackedLinear(std::span<const WeightView> weights, PanelLayout layout, Executor& executor,
               std::byte* memory);

  tile::cpu::PackedShape shape_;
  std::int64_t n_weights_ = 1;
  Buffer buffer_;  // its own memory, if it has some
  const std::byte* data_ = nullptr;
};

// One product of m rows: p = x * w^T, then the epilogue (tile/product/product_arguments.h).
//
// x is rounded as the layout asks: not at all with f32 and f16, to bf16 with bf16, to int8 per row
// with i8 and per 32 values with i8g32, i6g32 and i4g32. Sums are fp32 (int32 within quantised
// groups).
struct LinearJob {
  ConstRows x;  // [any, k]
  const PackedLinear* w = nullptr;
  Rows y;  // [any, n]; overlaps neither x nor the lists
  Epilogue epilogue = Epilogue::kStore;
  // Row i of the product is row x_rows[i] of x and goes to row y_rows[i] of y; empty: row i. Rows
  // of x may be taken several times, rows of y not within a job.
  std::span<const std::int32_t> x_rows;
  std::span<const std::int32_t> y_rows;
  std::span<const float> y_scale;  // one for each row, for kScaledAdd

  std::int64_t rows() const { return x_rows.empty() ? x.rows : std::ssize(x_rows); }
};

// Runs the products as one parallel region. Jobs whose y is the same matrix run in the order of the
// list, so that what they add has one order too; they must be of one n. Other jobs' y do not
// overlap. Jobs side by side that take the same rows of the same x share its rounding.
void linear(std::span<const LinearJob> jobs, Executor& executor);
void linear(const ConstRows& x, const PackedLinear& w, const Rows& y, Executor& executor,
            Epilogue epilogue = Epilogue::kStore);

// The same in double, with the packed weights' values; x is rounded as the layout asks, or not at
// all.
enum class RoundActivations { kNo, kAsLayout };
void linear_reference(const LinearJob& job, RoundActivations rounding);

}  // namespace tessera::ops
