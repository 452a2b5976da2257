#include "ops/verify/draw.h"

#include <cmath>
#include <numbers>

namespace tessera::ops::verify {

namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::uint64_t fnv1a_64(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

}  // namespace

Stream::Stream(std::int64_t seed, std::string_view name)
    : key_(mix(static_cast<std::uint64_t>(seed) ^ fnv1a_64(name))) {}

std::uint64_t Stream::bits(std::uint64_t i) const {
  return mix(key_ + (i + 1) * 0x9E3779B97F4A7C15u);
}

std::vector<float> Stream::normal(std::int64_t n, double scale) const {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const double u = static_cast<double>((bits(i) >> 11) + 1) * 0x1p-53;
    const double v = static_cast<double>(bits(i + 1) >> 11) * 0x1p-53;
    const double radius = std::sqrt(-2 * std::log(u));
    values[i] = static_cast<float>(radius * std::cos(2 * std::numbers::pi * v) * scale);
    if (i + 1 < values.size()) {
      values[i + 1] = static_cast<float>(radius * std::sin(2 * std::numbers::pi * v) * scale);
    }
  }
  return values;
}

}  // namespace tessera::ops::verify
