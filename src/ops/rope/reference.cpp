#include <complex>

#include "ops/rope/rope.h"

namespace tessera::ops {

// A pair of values is a complex number, and its rotation a product with cos + i sin.
void rope_reference(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout) {
  const std::int64_t n_pairs = cos.columns;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t head = 0; head < x.heads; ++head) {
      for (std::int64_t i = 0; i < n_pairs; ++i) {
        float* values = x.at(row, head);
        float& real = layout == RopeLayout::kInterleaved ? values[2 * i] : values[i];
        float& imaginary =
            layout == RopeLayout::kInterleaved ? values[2 * i + 1] : values[n_pairs + i];
        const auto pair = static_cast<std::size_t>(i);
        const std::complex<double> turn(cos.row(row)[pair], sin.row(row)[pair]);
        const std::complex<double> rotated = std::complex<double>(real, imaginary) * turn;
        real = static_cast<float>(rotated.real());
        imaginary = static_cast<float>(rotated.imag());
      }
    }
  }
}

constexpr RopeImplementation kRopeReference = {
    "reference", [](std::int64_t, RopeLayout) { return std::string(); },
    [](const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout, Executor&) {
      rope_reference(x, cos, sin, layout);
    }};

}  // namespace tessera::ops
