// bf16 and fp16 as storage types, with exact conversions (round to nearest, ties to even).
//
// Plain integer code so that every compiler and target gives the same bits; the loops in convert.h
// vectorise it.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera {

// The upper half of an IEEE binary32.
struct bf16 {
  std::uint16_t bits;
};

// IEEE binary16.
struct f16 {
  std::uint16_t bits;
};

inline float to_float(float value) {
  return value;
}

inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline float to_float(f16 value) {
  // Place exponent and mantissa where binary32 has them, then scale by 2^112 to re-bias. Subnormals
  // come out right because the multiplication normalises them; Inf and NaN get the all-ones
  // exponent.
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fffu) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const std::uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign | special);
}

inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40u : rounded)};
}

inline f16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // rounds past 65504: infinity
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 leaves the value, rounded to a multiple of 2^-24, in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  } else {
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    half = (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

}  // namespace tessera
