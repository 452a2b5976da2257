// Converting arrays between element types.
#pragma once

#include <cstddef>
#include <span>

#include <tessera/dtype.h>

#include "base/half.h"

namespace tessera {

// to and from have the same length and do not overlap. Rounds to nearest even.
void convert(std::span<const float> from, std::span<bf16> to);
void convert(std::span<const bf16> from, std::span<float> to);
void convert(std::span<const float> from, std::span<f16> to);
void convert(std::span<const f16> from, std::span<float> to);

// n elements of any type to any other; equal types are copied.
void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::size_t n);

}  // namespace tessera
