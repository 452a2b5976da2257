#include <cmath>

#include "base/multiversion.h"
#include "ops/dot.h"
#include "ops/rms_norm/rms_norm.h"

namespace tessera::ops {

namespace {

TESSERA_MULTIVERSION void rms_norm_row(const float* x, const float* weight, float eps, float* y,
                                       std::int64_t n) {
  const float mean = dot(x, x, n) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + eps);
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

}  // namespace

void rms_norm(const ConstRows& x, const float* weight, float eps, const Rows& y,
              Executor& executor) {
  const auto norm_row = [&](std::int64_t row) {
    rms_norm_row(x.row(row).data(), weight, eps, y.row(row).data(), x.columns);
  };
  executor.parallel_for(x.rows, 2 * x.rows * x.columns,
                        [&](std::int64_t row, Worker&) { norm_row(row); });
}

constexpr RmsNormImplementation kRmsNormNative = {
    "native", [](std::int64_t, std::int64_t) { return std::string(); }, rms_norm};

}  // namespace tessera::ops
