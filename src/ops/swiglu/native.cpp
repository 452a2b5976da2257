#include <cmath>

#include "ops/swiglu/swiglu.h"

namespace tessera::ops {

void swiglu(const ConstRows& gate_up, const Rows& y, Executor& executor) {
  // A few thousand values per task: one row when decoding, so that a wide row is shared out too.
  constexpr std::int64_t kBlock = 2048;
  const std::int64_t n = y.columns;
  const std::int64_t blocks_per_row = (n + kBlock - 1) / kBlock;
  const auto run_block = [&](std::int64_t task, Worker&) {
    const std::int64_t row = task / blocks_per_row;
    const std::int64_t first = task % blocks_per_row * kBlock;
    const float* gate = gate_up.row(row).data();
    const float* up = gate + n;
    float* out = y.row(row).data();
    for (std::int64_t i = first; i < std::min(n, first + kBlock); ++i) {
      out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    }
  };
  constexpr std::int64_t kWorkPerValue = 20;  // an exponential and a division
  executor.parallel_for(y.rows * blocks_per_row, kWorkPerValue * y.rows * n, run_block);
}

}  // namespace tessera::ops
