#include "base/numa.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

std::vector<int> nodes_of(const std::string& text) {
  TemporaryFolder root;
  const auto folder = root.path() / "sys/devices/system/node";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "online") << text;
  return numa_nodes(root.path());
}

TEST(Numa, NodesAreAListOfRanges) {
  EXPECT_EQ(nodes_of("0\n"), (std::vector<int>{0}));
  EXPECT_EQ(nodes_of("0-3\n"), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(nodes_of("0-1,4,6-7\n"), (std::vector<int>{0, 1, 4, 6, 7}));
  for (const char* text : {"", "\n", "x", "-", "3-"}) {
    EXPECT_EQ(nodes_of(text), (std::vector<int>{0})) << text;
  }
  EXPECT_EQ(numa_nodes("/no/such/root"), (std::vector<int>{0}));
}

TEST(Numa, InterleavedMemoryIsWholePagesAndStaysUsable) {
  const std::vector<int> nodes = numa_nodes("/");
  Buffer buffer(std::size_t{8} << 20);
  if (!interleave_over(nodes, buffer.data(), buffer.size())) {
    GTEST_SKIP() << "this system takes no memory policy";
  }
  int policy = -1;
  unsigned long mask[16] = {};
  ASSERT_EQ(::syscall(SYS_get_mempolicy, &policy, mask, 1025, buffer.data(), MPOL_F_ADDR), 0);
  EXPECT_EQ(policy, MPOL_INTERLEAVE);
  for (int node : nodes) EXPECT_TRUE(mask[node / 64] >> node % 64 & 1) << node;
  std::memset(buffer.data(), 1, buffer.size());
  // Parts of pages are left alone.
  EXPECT_TRUE(interleave_over(nodes, buffer.data() + 1, 4000));
  EXPECT_TRUE(interleave_over(nodes, buffer.data(), 0));
  interleave_over_nodes(buffer.data(), buffer.size());
}

}  // namespace
}  // namespace tessera
