#include <cmath>

#include "ops/rms_norm/rms_norm.h"

namespace tessera::ops {

void rms_norm_reference(const ConstRows& x, const float* weight, float eps, const Rows& y) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    double sum = 0;
    for (float value : x.row(row)) sum += static_cast<double>(value) * value;
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(x.columns) + eps);
    for (std::size_t i = 0; i < x.row(row).size(); ++i) {
      y.row(row)[i] = static_cast<float>(x.row(row)[i] * scale * weight[i]);
    }
  }
}

constexpr RmsNormImplementation kRmsNormReference = {
    "reference", [](std::int64_t, std::int64_t) { return std::string(); },
    [](const ConstRows& x, const float* weight, float eps, const Rows& y, Executor&) {
      rms_norm_reference(x, weight, eps, y);
    }};

}  // namespace tessera::ops
