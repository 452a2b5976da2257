#include "model/synth/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tessera {

namespace {

constexpr std::size_t kBlock = 32;
using Block = std::array<float, kBlock>;

void put_scale(float scale, std::byte* to) {
  const f16 rounded = to_f16(scale);
  std::memcpy(to, &rounded, sizeof rounded);
}

void encode_q8_0(const Block& x, std::byte* to) {
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::fabs(value));
  const float scale = largest / 127;
  const float inverse = scale != 0 ? 1 / scale : 0;
  put_scale(scale, to);
  for (std::size_t i = 0; i < kBlock; ++i) {
    to[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(x[i] * inverse)));
  }
}

void encode_q4_0(const Block& x, std::byte* to) {
  float largest = 0;
  for (const float value : x) {
    if (std::fabs(largest) < std::fabs(value)) largest = value;
  }
  const float scale = largest / -8;
  const float inverse = scale != 0 ? 1 / scale : 0;
  put_scale(scale, to);
  const auto code = [&](float value) {
    // Not one fused operation: the product is rounded first on every CPU.
    const volatile float product = value * inverse;
    return static_cast<unsigned>(std::min(15, static_cast<int>(product + 8.5f)));
  };
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    to[2 + i] = static_cast<std::byte>(code(x[i]) | code(x[i + kBlock / 2]) << 4);
  }
}

void encode_blocks(GgmlType type, std::span<const bf16> values, std::byte* to) {
  assert(values.size() % kBlock == 0);
  for (std::size_t first = 0; first < values.size(); first += kBlock) {
    Block block;
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = to_float(values[first + i]);
    type == GgmlType::kQ8_0 ? encode_q8_0(block, to) : encode_q4_0(block, to);
    to += block_bytes(type);
  }
}

}  // namespace

void encode_ggml(GgmlType type, std::span<const bf16> values, std::span<std::byte> bytes) {
  assert(bytes.size() == values.size() / block_values(type) * block_bytes(type));
  switch (type) {
    case GgmlType::kBF16:
      std::memcpy(bytes.data(), values.data(), bytes.size());
      return;
    case GgmlType::kF32:
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float value = to_float(values[i]);
        std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
      }
      return;
    case GgmlType::kQ4_0:
    case GgmlType::kQ8_0:
      encode_blocks(type, values, bytes.data());
  }
}

}  // namespace tessera
