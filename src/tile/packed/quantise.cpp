#include "tile/packed/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/multiversion.h"

namespace tessera::tile::cpu {

namespace {

constexpr int kColumns = kPanelColumns;

// To nearest even, for magnitudes below 2^22: the sum has no room for a fraction.
inline float to_nearest(float value) {
  constexpr float kMagic = 0x1.8p23f;
  return (value + kMagic) - kMagic;
}

inline float to_integer(float value, float low, float high) {
  return to_nearest(std::min(std::max(value, low), high));
}

TESSERA_MULTIVERSION void write_bytes(const float* values, std::int64_t rows, const float* inverse,
                                      float low, float high, float offset, std::uint8_t* bytes) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      const float integer = to_integer(values[r * kColumns + c] * inverse[c], low, high);
      bytes[r * kColumns + c] = static_cast<std::uint8_t>(static_cast<int>(integer + offset));
    }
  }
}

}  // namespace

const IntegerRange& integer_range(PanelLayout layout) {
  static constexpr std::array kNibbles{6.75f, 7.25f, 7.75f, 8.0f, 8.25f, 8.75f};
  static constexpr std::array kSixBits{29.5f, 30.5f, 31.0f, 31.5f, 32.0f, 32.5f, 33.5f};
  static constexpr std::array kBytes{126.5f, 127.0f, 127.5f, 128.0f};
  static constexpr IntegerRange kNibbleRange{-8, 7, kNibbles};
  static constexpr IntegerRange kSixBitRange{-32, 31, kSixBits};
  static constexpr IntegerRange kByteRange{-128, 127, kBytes};
  if (layout == PanelLayout::kI4G32) return kNibbleRange;
  return layout == PanelLayout::kI6G32 ? kSixBitRange : kByteRange;
}

TESSERA_MULTIVERSION bool fit_scales(const float* values, std::int64_t rows,
                                     const IntegerRange& range, float* scales) {
  // The value of the largest magnitude in each column.
  float largest[kColumns] = {};
  float zeros[kColumns] = {};  // NaN where a value is not finite
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = values + r * kColumns;
    for (int c = 0; c < kColumns; ++c) {
      largest[c] = std::abs(row[c]) > std::abs(largest[c]) ? row[c] : largest[c];
      zeros[c] += row[c] * 0.0f;
    }
  }
  // The squared error is the sum of value^2 less products^2 / squares.
  float best[kColumns] = {};
  float found[kColumns] = {};
  const float low = range.low;
  const float high = range.high;
  for (float trial : range.largest_as) {
    float inverse[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      inverse[c] = -trial / (largest[c] == 0 ? 1.0f : largest[c]);  // zeros stay zeros
    }
    float products[kColumns] = {};
    float squares[kColumns] = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = values + r * kColumns;
      for (int c = 0; c < kColumns; ++c) {
        const float integer = to_integer(row[c] * inverse[c], low, high);
        products[c] += row[c] * integer;
        squares[c] += integer * integer;
      }
    }
    // Loops that vectorise: squares that are not 0 are at least 1.
    float scale[kColumns];
    for (int c = 0; c < kColumns; ++c) scale[c] = products[c] / std::max(squares[c], 1.0f);
    for (int c = 0; c < kColumns; ++c) {
      const float gain = products[c] * scale[c];
      found[c] = gain > best[c] ? scale[c] : found[c];
      best[c] = std::max(best[c], gain);
    }
  }
  float sum = 0;
  for (int c = 0; c < kColumns; ++c) {
    scales[c] = found[c];
    sum += zeros[c];
  }
  return sum == 0;
}

void quantise(const float* values, std::int64_t rows, const IntegerRange& range, int offset,
              const float* scales, std::uint8_t* bytes) {
  float inverse[kColumns];
  for (int c = 0; c < kColumns; ++c) inverse[c] = scales[c] == 0 ? 0 : 1.0f / scales[c];
  write_bytes(values, rows, inverse, range.low, range.high, static_cast<float>(offset), bytes);
}

}  // namespace tessera::tile::cpu
