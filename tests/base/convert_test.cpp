#include "base/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tessera {
namespace {

// The value of a binary16 by its definition: sign, exponent, fraction.
double f16_by_definition(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, EveryF16HasTheValueOfItsDefinition) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const double expected = f16_by_definition(static_cast<std::uint16_t>(bits));
    const float got = to_float(f16{static_cast<std::uint16_t>(bits)});
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << std::hex << bits;
    } else {
      EXPECT_EQ(got, expected) << std::hex << bits;
      EXPECT_EQ(to_f16(got).bits, bits);
    }
  }
}

// The representable value nearest to x, ties to the even fraction, found by trying the neighbours.
template <typename Half>
void expect_nearest_even(float x, Half rounded) {
  const double error = std::abs(static_cast<double>(to_float(rounded)) - x);
  for (int step : {-1, 1}) {
    const Half other{static_cast<std::uint16_t>(rounded.bits + step)};
    const float value = to_float(other);
    if (std::isnan(value) || std::isinf(value) || std::signbit(value) != std::signbit(x)) continue;
    const double other_error = std::abs(static_cast<double>(value) - x);
    EXPECT_LE(error, other_error) << x;
    if (error == other_error) {
      EXPECT_EQ(rounded.bits & 1, 0) << x;
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::ldexp(static_cast<float>(random()) * 0x1p-31f - 1.0f,
                               static_cast<int>(random() % 36) - 22);
    if (std::abs(x) < 65504.0f) expect_nearest_even(x, to_f16(x));
    expect_nearest_even(x, to_bf16(x));
  }
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // tie, to even below
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // tie, to even above
}

TEST(Half, KeepsInfinityNanAndOverflow) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float(to_bf16(infinity)), infinity);
  EXPECT_EQ(to_float(to_f16(-infinity)), -infinity);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(to_float(to_f16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(to_float(to_f16(65520.0f)), infinity);
  EXPECT_EQ(to_float(to_f16(65519.0f)), 65504.0f);
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())), infinity);
}

TEST(Convert, ArraysAgreeWithScalarsAtEveryLength) {
  std::mt19937 random(2);
  for (std::size_t n : {0, 1, 7, 8, 15, 16, 17, 33, 2047, 2048, 2049}) {
    std::vector<float> values(n);
    for (float& v : values) v = static_cast<float>(random()) * 0x1p-28f - 8.0f;
    std::vector<bf16> as_bf16(n + 1, bf16{0x1234});  // one guard element
    std::vector<f16> as_f16(n + 1, f16{0x1234});
    convert(values.data(), DType::kF32, as_bf16.data(), DType::kBF16, n);
    convert(as_bf16.data(), DType::kBF16, as_f16.data(), DType::kF16, n);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(as_bf16[i].bits, to_bf16(values[i]).bits);
      EXPECT_EQ(as_f16[i].bits, to_f16(to_float(as_bf16[i])).bits);
    }
    EXPECT_EQ(as_bf16[n].bits, 0x1234);
    EXPECT_EQ(as_f16[n].bits, 0x1234);
  }
}

}  // namespace
}  // namespace tessera
