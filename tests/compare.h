// Comparing arrays of floats.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tessera::testing {

// What differs between two arrays of one length. A NaN or infinity on either side counts as
// not_finite.
struct Difference {
  double max_abs = 0;
  double largest = 0;  // largest magnitude expected
  double cosine = 1;
  std::size_t worst = 0;  // index of max_abs
  std::size_t not_finite = 0;
};

inline Difference compare(std::span<const float> got, std::span<const float> expected) {
  EXPECT_EQ(got.size(), expected.size());
  Difference d;
  double dot = 0;
  double norm_got = 0;
  double norm_expected = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(expected[i])) {
      ++d.not_finite;
      continue;
    }
    const double error = std::abs(static_cast<double>(got[i]) - expected[i]);
    if (error > d.max_abs) {
      d.max_abs = error;
      d.worst = i;
    }
    d.largest = std::max(d.largest, std::abs(static_cast<double>(expected[i])));
    dot += static_cast<double>(got[i]) * expected[i];
    norm_got += static_cast<double>(got[i]) * got[i];
    norm_expected += static_cast<double>(expected[i]) * expected[i];
  }
  if (norm_got > 0 && norm_expected > 0) d.cosine = dot / std::sqrt(norm_got * norm_expected);
  return d;
}

// Every |difference| is at most `tolerance` of the largest magnitude expected.
inline ::testing::AssertionResult close(std::span<const float> got, std::span<const float> expected,
                                        double tolerance) {
  const Difference d = compare(got, expected);
  if (got.size() == expected.size() && d.not_finite == 0 && d.max_abs <= tolerance * d.largest) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << fmt::format(
             "{} values against {}; largest difference {} at index {} ({} against {}), tolerance "
             "{}, "
             "cosine {}, {} not finite",
             got.size(), expected.size(), d.max_abs, d.worst,
             got.empty() ? 0 : got[std::min(d.worst, got.size() - 1)],
             expected.empty() ? 0 : expected[d.worst], tolerance * d.largest, d.cosine,
             d.not_finite);
}

}  // namespace tessera::testing
