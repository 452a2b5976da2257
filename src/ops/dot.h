// Inner products with a fixed order of additions.
//
// Sixteen partial sums, one per lane, are what a vector unit keeps anyway; spelling them out lets
// the compiler vectorise without -ffast-math. The bits do not depend on the vector width, only on
// whether the CPU fuses multiply and add.
#pragma once

#include <cstdint>

#include "base/half.h"

namespace tessera::ops {

inline constexpr std::int64_t kLanes = 16;

// Always inlined: the loop must be compiled for the vector width of the function that uses it.
template <typename T>
[[gnu::always_inline]] inline float dot(const float* a, const T* b, std::int64_t n) {
  float sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += a[i + lane] * to_float(b[i + lane]);
    }
  }
  for (std::int64_t lane = 0; i < n; ++i, ++lane) sums[lane] += a[i] * to_float(b[i]);
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::int64_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  }
  return sums[0];
}

}  // namespace tessera::ops
