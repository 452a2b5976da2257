#include "base/convert.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "base/multiversion.h"

namespace tessera {

namespace {

TESSERA_MULTIVERSION void narrow_bf16(const float* from, bf16* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = to_bf16(from[i]);
}

TESSERA_MULTIVERSION void widen_bf16(const bf16* from, float* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = to_float(from[i]);
}

TESSERA_MULTIVERSION void narrow_f16(const float* from, f16* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = to_f16(from[i]);
}

TESSERA_MULTIVERSION void widen_f16(const f16* from, float* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = to_float(from[i]);
}

}  // namespace

void convert(std::span<const float> from, std::span<bf16> to) {
  assert(from.size() == to.size());
  narrow_bf16(from.data(), to.data(), from.size());
}

void convert(std::span<const bf16> from, std::span<float> to) {
  assert(from.size() == to.size());
  widen_bf16(from.data(), to.data(), from.size());
}

void convert(std::span<const float> from, std::span<f16> to) {
  assert(from.size() == to.size());
  narrow_f16(from.data(), to.data(), from.size());
}

void convert(std::span<const f16> from, std::span<float> to) {
  assert(from.size() == to.size());
  widen_f16(from.data(), to.data(), from.size());
}

void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::size_t n) {
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, n * size_in_bytes(to_dtype));
    return;
  }
  const auto narrow = [&](const float* values, void* target, std::size_t count) {
    if (to_dtype == DType::kBF16) narrow_bf16(values, static_cast<bf16*>(target), count);
    if (to_dtype == DType::kF16) narrow_f16(values, static_cast<f16*>(target), count);
  };
  const auto widen = [&](const void* values, float* target, std::size_t count) {
    if (from_dtype == DType::kBF16) widen_bf16(static_cast<const bf16*>(values), target, count);
    if (from_dtype == DType::kF16) widen_f16(static_cast<const f16*>(values), target, count);
  };
  if (from_dtype == DType::kF32) return narrow(static_cast<const float*>(from), to, n);
  if (to_dtype == DType::kF32) return widen(from, static_cast<float*>(to), n);

  // Between the two half types: through a block of floats that stays in the first-level cache.
  std::array<float, 2048> block;
  for (std::size_t i = 0; i < n; i += block.size()) {
    const std::size_t count = std::min(block.size(), n - i);
    widen(static_cast<const std::byte*>(from) + i * 2, block.data(), count);
    narrow(block.data(), static_cast<std::byte*>(to) + i * 2, count);
  }
}

}  // namespace tessera
