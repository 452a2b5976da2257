// The rotation itself, for the type in which it is computed.
#pragma once

#include "ops/rope/rope.h"

namespace tessera::ops {

template <typename Real>
void rotate_heads(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout) {
  const std::int64_t n_pairs = cos.columns;
  const bool interleaved = layout == RopeLayout::kInterleaved;
  const std::int64_t step = interleaved ? 2 : 1;          // from a pair to the next
  const std::int64_t across = interleaved ? 1 : n_pairs;  // from a pair's first value to its second
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const float* c = cos.row(row).data();
    const float* s = sin.row(row).data();
    for (std::int64_t head = 0; head < x.heads; ++head) {
      float* values = x.at(row, head);
      for (std::int64_t i = 0; i < n_pairs; ++i) {
        float& first = values[i * step];
        float& second = values[i * step + across];
        const Real a = first;
        const Real b = second;
        first = static_cast<float>(a * c[i] - b * s[i]);
        second = static_cast<float>(a * s[i] + b * c[i]);
      }
    }
  }
}

}  // namespace tessera::ops
