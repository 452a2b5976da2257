// Matrix products: y = x * w^T, accumulated in fp32.
#pragma once

#include <span>

#include "ops/executor.h"
#include "ops/rows.h"
#include "ops/weight.h"

namespace tessera::ops {

// y [m, n] = x [m, k] * w^T with w [n, k]. x and y may be strided; y overlaps neither x nor w.
// With bf16 weights x is rounded to bf16 first (the hardware's product); with fp16 and fp32 weights
// the product is that of fp32 numbers.
struct MatmulJob {
  ConstRows x;
  WeightView w;
  Rows y;
};

// Runs independent products as one parallel region. The result of a job depends on its own shape
// and numbers alone: not on the thread count nor on the other jobs.
void matmul(std::span<const MatmulJob> jobs, Executor& executor);
void matmul(const ConstRows& x, const WeightView& w, const Rows& y, Executor& executor);

// The same product with the same rounding of x, accumulated in double.
void matmul_reference(const ConstRows& x, const WeightView& w, const Rows& y);

}  // namespace tessera::ops
