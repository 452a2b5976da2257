#include "base/checksum.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::vector<std::byte> some_bytes(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 256);
  return bytes;
}

TEST(Checksum, ChangesWithEveryBit) {
  for (std::size_t n : {1, 7, 63, 64, 65, 200}) {
    std::vector<std::byte> bytes = some_bytes(n);
    const std::uint64_t intact = checksum(bytes);
    std::set<std::uint64_t> seen{intact};
    for (std::size_t bit = 0; bit < 8 * n; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      EXPECT_TRUE(seen.insert(checksum(bytes)).second) << n << " bytes, bit " << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    EXPECT_EQ(checksum(bytes), intact);
  }
}

TEST(Checksum, ChangesWithTheLengthAndTheOrder) {
  std::set<std::uint64_t> seen;
  for (std::size_t n = 0; n < 300; ++n) {
    EXPECT_TRUE(seen.insert(checksum(std::vector<std::byte>(n))).second) << n;
  }
  std::vector<std::byte> bytes = some_bytes(256);
  const std::uint64_t before = checksum(bytes);
  std::swap_ranges(bytes.begin(), bytes.begin() + 64, bytes.begin() + 64);
  EXPECT_NE(checksum(bytes), before);
}

// Files keep it: it must not depend on the processor or the version.
TEST(Checksum, KnownValues) {
  EXPECT_EQ(checksum({}), 0x9e0023413ad10b59u);
  EXPECT_EQ(checksum(some_bytes(100)), 0xc55a62c16349e853u);
}

}  // namespace
}  // namespace tessera
