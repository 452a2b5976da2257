#include "ops/verify/measure.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/convert.h"

namespace tessera::ops::verify {

namespace {

// Numbers of a type in order, as consecutive integers; both zeros are 0.
std::int64_t ordinal(const void* element, DType dtype) {
  if (dtype == DType::kF32) {
    const auto bits = *static_cast<const std::uint32_t*>(element);
    const auto magnitude = static_cast<std::int64_t>(bits & 0x7fffffffu);
    return (bits >> 31) != 0 ? -magnitude : magnitude;
  }
  const auto bits = *static_cast<const std::uint16_t*>(element);
  const std::int64_t magnitude = bits & 0x7fff;
  return (bits >> 15) != 0 ? -magnitude : magnitude;
}

}  // namespace

Measure measure(std::span<const std::byte> got, DType dtype, std::span<const float> expected,
                const Tolerance& tolerance) {
  const std::size_t n = expected.size();
  std::vector<float> values(n);
  convert(got.data(), dtype, values.data(), DType::kF32, n);
  std::vector<std::byte> rounded(got.size());
  convert(expected.data(), DType::kF32, rounded.data(), dtype, n);

  Measure m;
  double dot = 0;
  double norm_got = 0;
  double norm_expected = 0;
  const auto note_worst = [&](double ratio, std::size_t i) {
    if (ratio <= m.worst_ratio) return;
    m.worst_ratio = ratio;
    m.worst = static_cast<std::int64_t>(i);
  };
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(values[i])) {
      ++(std::isnan(values[i]) ? m.n_nan : m.n_inf);
      note_worst(std::numeric_limits<double>::infinity(), i);
      continue;
    }
    const double g = values[i];
    const double e = expected[i];
    const double error = std::abs(g - e);
    const double allowed = tolerance.atol + tolerance.rtol * std::abs(e);
    if (!(error <= allowed)) ++m.n_outside;
    if (error > 0) note_worst(error / allowed, i);
    m.max_abs = std::max(m.max_abs, error);
    if (std::abs(e) > tolerance.atol) m.max_rel = std::max(m.max_rel, error / std::abs(e));
    const std::size_t at = i * size_in_bytes(dtype);
    m.max_ulp = std::max(
        m.max_ulp, std::abs(ordinal(got.data() + at, dtype) - ordinal(rounded.data() + at, dtype)));
    dot += g * e;
    norm_got += g * g;
    norm_expected += e * e;
  }
  if (norm_got > 0 || norm_expected > 0) {
    m.cosine = norm_got > 0 && norm_expected > 0
                   ? dot / (std::sqrt(norm_got) * std::sqrt(norm_expected))
                   : 0;
  }
  if (n > 0) {
    m.got = values[static_cast<std::size_t>(m.worst)];
    m.expected = expected[static_cast<std::size_t>(m.worst)];
  }
  return m;
}

bool passes(const Measure& m, DType dtype) {
  const double min_cosine = dtype == DType::kF32 ? 0.99999 : 0.999;
  return m.n_nan == 0 && m.n_inf == 0 && m.n_outside == 0 && m.cosine >= min_cosine;
}

}  // namespace tessera::ops::verify
