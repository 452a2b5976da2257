// Normally distributed bf16 values that depend on a key and a position alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/half.h"

namespace tessera {

// An endless sequence of values around mean, of which any part can be computed by itself: the same
// bytes whatever the order, the number of threads and the CPU.
struct RandomStream {
  std::uint64_t key = 0;
  float mean = 0;
  float std = 1;  // used rounded to bf16

  // Values first, first + 1, ...; first is a multiple of kBlock.
  void fill(std::size_t first, std::span<bf16> values) const;

  static constexpr std::size_t kBlock = 4;
};

// The key of a tensor; index tells apart the streams within one.
std::uint64_t stream_key(std::uint64_t seed, std::string_view name, std::uint64_t index = 0);

// A number in [0, 1) from a key.
double uniform(std::uint64_t key);

}  // namespace tessera
