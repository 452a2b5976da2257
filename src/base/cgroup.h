// What the control groups of this process leave it: CPU time and memory (cgroup v2 and v1).
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace tessera {

// root is where /proc and /sys lie ("/", or a copy of them in a test). A limit counts wherever it
// is set between the process's own group and the root of the hierarchy; the tightest one holds.

// CPUs' worth of time per period, rounded up; none without a quota.
std::optional<int> cgroup_cpus(const std::filesystem::path& root);

// Bytes up to the memory limit; none without a limit. Cached files that the kernel can drop count
// as free.
std::optional<std::size_t> cgroup_memory_left(const std::filesystem::path& root);

}  // namespace tessera
