// Values of a synthetic model in the element types of GGUF.
#pragma once

#include <cstddef>
#include <span>

#include "base/half.h"
#include "io/gguf_writer.h"

namespace tessera {

// The values in that type: F32 and BF16 are exact, Q8_0 and Q4_0 rounded as ggml rounds them. For
// a block of 32 values x,
//
//   Q8_0: d = max |x| / 127, q = round(x / d), halves away from zero
//   Q4_0: d = m / -8 for the x of largest magnitude m (the first of several), q = floor(x / d +
//         8.5) to at most 15; the byte i holds q[i] in its low and q[i + 16] in its high half
//
// with x / d computed as x * (1 / d) in fp32 before d is rounded to fp16.
//
// The number of values is a multiple of block_values(type); bytes holds them exactly.
void encode_ggml(GgmlType type, std::span<const bf16> values, std::span<std::byte> bytes);

}  // namespace tessera
