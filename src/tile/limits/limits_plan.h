// What the functions of the front end "limits" do: the interface between the library and
// src/tile/cpu/lower_limits.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::tile {

// What a loop of dot products multiplies: fp32, pairs of bf16 or quads of bytes. On a CPU without
// an instruction for it the loop is that of fp32, which products then run too.
enum class Dot { kF32, kBF16, kI8 };
inline constexpr Dot kDots[] = {Dot::kF32, Dot::kBF16, Dot::kI8};

// Members are written by emitted code at these offsets: change the lowering with them.
struct LimitsPlan {
  std::int64_t read_bytes = 0;                     // what one turn of the reading loop takes
  std::int64_t operations[std::size(kDots)] = {};  // of one turn of each loop of dot products
};

// "plan".
using LimitsPlanFunction = void(LimitsPlan*);
// "read": reads bytes [begin, end) of memory, multiples of read_bytes. sink: 64 bytes, aligned.
using LimitsReadFunction = void(const std::byte* memory, std::byte* sink, std::int64_t begin,
                                std::int64_t end);
// "dot_f32", "dot_bf16", "dot_i8": turns [begin, end). operands: kOperandBytes, sums:
// kMostSumsBytes, aligned to 64.
using LimitsDotFunction = void(const std::byte* operands, std::byte* sums, std::int64_t begin,
                               std::int64_t end);
inline constexpr std::size_t kOperandBytes = 128;
inline constexpr std::size_t kMostSumsBytes = 32 * 64;

}  // namespace tessera::tile
