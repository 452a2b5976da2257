#include "ops/rope/rope.h"

namespace tessera::ops {

void rope(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout) {
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
        const float a = first;
        const float b = second;
        first = a * c[i] - b * s[i];
        second = a * s[i] + b * c[i];
      }
    }
  }
}

constexpr RopeImplementation kRopeNative = {
    "native", [](std::int64_t, RopeLayout) { return std::string(); },
    [](const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout, Executor&) {
      rope(x, cos, sin, layout);
    }};

}  // namespace tessera::ops
