#include "model/synth/random_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <numbers>

#include "base/multiversion.h"

namespace tessera {

namespace {

// SplitMix64 (Steele, Lea, Flood 2014): state n of the stream that starts at key is key + n *
// kStep.
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;

constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t hash(std::string_view text) {  // FNV-1a
  std::uint64_t h = 0xcbf29ce484222325u;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

// 16 random bits make a value: one is the sign, 15 choose the magnitude among equally likely ones.
constexpr std::size_t kMagnitudes = 1 << 15;

// Quantiles of the upper half of the normal distribution, up to 4.2. They are rounded to bf16, so
// that their product with a bf16 std is exact in fp32 and no CPU's fused multiply-add differs.
std::array<float, kMagnitudes> make_magnitudes() {
  std::array<float, kMagnitudes> magnitudes;
  double z = 0;
  for (std::size_t i = 0; i < kMagnitudes; ++i) {
    const double upper = 0.5 - (static_cast<double>(i) + 0.5) / (2.0 * kMagnitudes);
    // Newton from the quantile before. Above the median the distribution function is concave, so
    // the steps approach from below and do not overshoot.
    for (int step = 0; step < 8; ++step) {
      const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
      z += (0.5 * std::erfc(z / std::numbers::sqrt2) - upper) / density;
    }
    magnitudes[i] = to_float(to_bf16(static_cast<float>(z)));
  }
  return magnitudes;
}

constexpr std::size_t kBatchBlocks = 256;
constexpr std::size_t kBatchValues = kBatchBlocks * RandomStream::kBlock;

TESSERA_MULTIVERSION void hash_blocks(std::uint64_t state, std::uint64_t* bits) {
  for (std::size_t i = 0; i < kBatchBlocks; ++i) bits[i] = mix(state + i * kStep);
}

TESSERA_MULTIVERSION void to_values(const std::uint64_t* bits, const float* magnitudes, float mean,
                                    float std, bf16* values) {
  for (std::size_t i = 0; i < kBatchValues; ++i) {
    const std::size_t shift = i % RandomStream::kBlock * 16;
    const auto random = static_cast<std::uint32_t>(bits[i / RandomStream::kBlock] >> shift);
    const float magnitude = magnitudes[random & (kMagnitudes - 1)];
    const std::uint32_t sign = (random & kMagnitudes) << 16;
    const float z = std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
    values[i] = to_bf16(mean + std * z);
  }
}

}  // namespace

void RandomStream::fill(std::size_t first, std::span<bf16> values) const {
  assert(first % kBlock == 0);
  static const std::array<float, kMagnitudes> magnitudes = make_magnitudes();
  const float exact_std = to_float(to_bf16(std));
  std::array<std::uint64_t, kBatchBlocks> bits;
  std::array<bf16, kBatchValues> tail;
  for (std::size_t i = 0; i < values.size(); i += kBatchValues) {
    hash_blocks(key + (first + i) / kBlock * kStep, bits.data());
    const std::size_t n = std::min(kBatchValues, values.size() - i);
    bf16* to = n == kBatchValues ? values.data() + i : tail.data();
    to_values(bits.data(), magnitudes.data(), mean, exact_std, to);
    if (n < kBatchValues) std::copy_n(tail.data(), n, values.data() + i);
  }
}

std::uint64_t stream_key(std::uint64_t seed, std::string_view name, std::uint64_t index) {
  return mix(mix(mix(seed + kStep) ^ hash(name)) + index * kStep);
}

double uniform(std::uint64_t key) {
  return static_cast<double>(mix(key) >> 11) * 0x1p-53;
}

}  // namespace tessera
