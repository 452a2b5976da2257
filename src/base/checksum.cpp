#include "base/checksum.h"

#include <algorithm>
#include <cstring>

#include "base/multiversion.h"

namespace tessera {

namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kLine = kLanes * sizeof(std::uint64_t);
constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;  // 2^64 over the golden ratio

// One step of a lane: invertible in both arguments. The product alone would leave a change of the
// highest bits there, where another one in the next word undoes it.
inline std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  const std::uint64_t both = state ^ word;
  return (both ^ both >> 32) * kOdd;
}

// Lanes side by side, so that their multiplications overlap.
TESSERA_MULTIVERSION void add_lines(const std::byte* bytes, std::size_t n_lines,
                                    std::uint64_t* lanes) {
  std::uint64_t state[kLanes];
  std::copy(lanes, lanes + kLanes, state);
  for (std::size_t line = 0; line < n_lines; ++line) {
    std::uint64_t words[kLanes];
    std::memcpy(words, bytes + line * kLine, kLine);
    for (std::size_t i = 0; i < kLanes; ++i) state[i] = mix(state[i], words[i]);
  }
  std::copy(state, state + kLanes, lanes);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t lanes[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = (i + 1) * kOdd;
  const std::size_t n_lines = bytes.size() / kLine;
  add_lines(bytes.data(), n_lines, lanes);
  const std::span<const std::byte> rest = bytes.subspan(n_lines * kLine);
  if (!rest.empty()) {
    std::byte line[kLine] = {};
    std::copy(rest.begin(), rest.end(), line);
    add_lines(line, 1, lanes);
  }
  std::uint64_t result = bytes.size();
  for (std::uint64_t lane : lanes) result = mix(result, mix(lane, 0));
  return mix(result, 0);
}

}  // namespace tessera
