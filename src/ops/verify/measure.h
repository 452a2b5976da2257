// How far an output is from what is expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <tessera/dtype.h>

#include "ops/verify/case.h"

namespace tessera::ops::verify {

struct Measure {
  double max_abs = 0;        // of got - expected
  double max_rel = 0;        // of |got - expected| / |expected|, where |expected| > atol
  double cosine = 1;         // of the two as vectors; 1 if both are zero
  std::int64_t max_ulp = 0;  // in steps of the output's type, from `expected` rounded to it
  std::int64_t n_nan = 0;    // in what we got; these are in none of the figures above
  std::int64_t n_inf = 0;
  std::int64_t n_outside = 0;  // elements beyond the tolerance
  std::int64_t worst =
      0;  // the element furthest beyond it, or closest to it; a NaN if there is one
  double worst_ratio = 0;  // there, the difference by what the tolerance allows
  float got = 0;           // there
  float expected = 0;
};

// `got` are expected.size() elements of that type.
Measure measure(std::span<const std::byte> got, DType dtype, std::span<const float> expected,
                const Tolerance& tolerance);

// Whether nothing is NaN, infinite or outside the tolerance, and the two point the same way: the
// cosine catches a tolerance that is large beside the numbers.
bool passes(const Measure& m, DType dtype);

}  // namespace tessera::ops::verify
