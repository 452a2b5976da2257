// The random numbers of test cases: the same on every machine, and reproducible elsewhere.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::ops::verify {

// The stream of one tensor of one case. Every number is computed from its index alone:
//
//   key  = mix(seed XOR fnv1a_64(name))
//   z[i] = mix(key + (i + 1) * 0x9E3779B97F4A7C15)      mod 2^64; mix is that of SplitMix64
class Stream {
 public:
  Stream(std::int64_t seed, std::string_view name);

  std::uint64_t bits(std::uint64_t i) const;  // z[i]

  // Standard normal numbers times scale, rounded to fp32; Box and Muller's method in double:
  //
  //   u = ((z[2p] >> 11) + 1) * 2^-53, v = (z[2p + 1] >> 11) * 2^-53
  //   n[2p], n[2p + 1] = sqrt(-2 ln u) * (cos 2 pi v, sin 2 pi v)
  std::vector<float> normal(std::int64_t n, double scale) const;

 private:
  std::uint64_t key_;
};

}  // namespace tessera::ops::verify
