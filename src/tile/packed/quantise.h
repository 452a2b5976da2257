// Choosing the integers and scales of quantised weights.
//
// Everything here works on `rows` inputs of 32 columns side by side, [rows][32]: the loops run over
// the columns, so that they vectorise without adding anything in another order.
#pragma once

#include <cstdint>
#include <span>

#include "tile/packed/panel_layout.h"

namespace tessera::tile::cpu {

// Integers from low to high.
struct IntegerRange {
  float low;
  float high;
  // Which integers the value of the largest magnitude is tried as, with their sign turned (the low
  // end reaches one further than the high one). Smaller ones clip nothing and waste range, larger
  // ones clip the largest value to spread the others.
  std::span<const float> largest_as;
};

const IntegerRange& integer_range(PanelLayout layout);

// For each column the scale s with the least sum of (value - s * integer)^2 among the trials, s
// itself fitted to the integers in closed form. It may be negative; 0 for a column of zeros. False
// where a value is NaN or infinite.
bool fit_scales(const float* values, std::int64_t rows, const IntegerRange& range, float* scales);

// integer + offset, to nearest even, for the given scales; 0 + offset where a scale is 0.
void quantise(const float* values, std::int64_t rows, const IntegerRange& range, int offset,
              const float* scales, std::uint8_t* bytes);

}  // namespace tessera::tile::cpu
