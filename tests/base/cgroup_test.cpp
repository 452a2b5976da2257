#include "base/cgroup.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

// A copy of /proc and /sys in which tests write what the kernel would say.
class Cgroup : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const auto file = root_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  TemporaryFolder root_;
};

TEST_F(Cgroup, NoLimitsWhereNothingIsSet) {
  EXPECT_EQ(cgroup_cpus(root_.path()), std::nullopt);
  EXPECT_EQ(cgroup_memory_left(root_.path()), std::nullopt);
  put("proc/self/cgroup", "0::/box\n");
  put("sys/fs/cgroup/box/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/box/memory.max", "max\n");
  put("sys/fs/cgroup/box/memory.current", "1000\n");
  EXPECT_EQ(cgroup_cpus(root_.path()), std::nullopt);
  EXPECT_EQ(cgroup_memory_left(root_.path()), std::nullopt);
}

TEST_F(Cgroup, AQuotaRoundsUpToWholeCpus) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpus(root_.path()), 2);
}

TEST_F(Cgroup, TheTightestLimitOnTheWayUpHolds) {
  put("proc/self/cgroup", "0::/outer/inner\n");
  put("sys/fs/cgroup/outer/cpu.max", "100000 100000\n");
  put("sys/fs/cgroup/outer/inner/cpu.max", "400000 100000\n");
  put("sys/fs/cgroup/outer/memory.max", "5000\n");
  put("sys/fs/cgroup/outer/memory.current", "3000\n");
  put("sys/fs/cgroup/outer/inner/memory.max", "9000\n");
  put("sys/fs/cgroup/outer/inner/memory.current", "3000\n");
  EXPECT_EQ(cgroup_cpus(root_.path()), 1);
  EXPECT_EQ(cgroup_memory_left(root_.path()), 2000u);
}

TEST_F(Cgroup, CachedFilesCountAsFree) {
  put("proc/self/cgroup", "0::/box\n");
  put("sys/fs/cgroup/box/memory.max", "10000\n");
  put("sys/fs/cgroup/box/memory.current", "9500\n");
  put("sys/fs/cgroup/box/memory.stat", "anon 500\ninactive_file 9000\nactive_file 0\n");
  EXPECT_EQ(cgroup_memory_left(root_.path()), 9500u);
}

TEST_F(Cgroup, ReadsTheOldHierarchyToo) {
  put("proc/self/cgroup", "5:cpu,cpuacct:/box\n3:memory:/box\n");
  put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "300000\n");
  put("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000\n");
  put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1200\n");
  EXPECT_EQ(cgroup_cpus(root_.path()), 3);
  EXPECT_EQ(cgroup_memory_left(root_.path()), 0u);
  put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpus(root_.path()), std::nullopt);
}

}  // namespace
}  // namespace tessera
