#include "base/machine.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include <sched.h>

namespace tessera {

namespace {

// Value in bytes of a "Name:   123 kB" line of a /proc file.
std::optional<std::size_t> proc_field(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0) {
      std::istringstream text(line.substr(name.size() + 1));
      std::size_t kilobytes = 0;
      if (text >> kilobytes) return kilobytes * 1024;
    }
  }
  return std::nullopt;
}

template <typename T>
std::optional<T> read_number(const std::string& path) {
  std::ifstream file(path);
  T value{};
  if (file >> value) return value;
  return std::nullopt;  // absent, or the word "max": no limit
}

// This process's folder in the unified (v2) hierarchy.
std::string cgroup_v2_folder() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) == 0) return "/sys/fs/cgroup" + line.substr(3);
  }
  return "/sys/fs/cgroup";
}

// CPUs worth of time per period, rounded up; no value without a quota.
std::optional<int> cgroup_cpu_quota() {
  for (const std::string& folder : {cgroup_v2_folder(), std::string("/sys/fs/cgroup")}) {
    std::ifstream file(folder + "/cpu.max");
    double quota = 0;
    double period = 0;
    if (file >> quota >> period && quota > 0 && period > 0) {
      return static_cast<int>(std::ceil(quota / period));
    }
  }
  const auto quota = read_number<double>("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const auto period = read_number<double>("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) {
    return static_cast<int>(std::ceil(*quota / *period));
  }
  return std::nullopt;
}

std::optional<std::size_t> cgroup_memory_left() {
  struct Names {
    std::string limit, used;
  };
  for (const Names& names :
       {Names{cgroup_v2_folder() + "/memory.max", cgroup_v2_folder() + "/memory.current"},
        Names{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        Names{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
              "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    const auto limit = read_number<std::size_t>(names.limit);
    const auto used = read_number<std::size_t>(names.used);
    if (limit && used) return *limit > *used ? *limit - *used : 0;
  }
  return std::nullopt;
}

}  // namespace

int available_cpus() {
  int cpus = 1;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  if (const auto quota = cgroup_cpu_quota()) cpus = std::min(cpus, *quota);
  return std::max(cpus, 1);
}

std::size_t available_memory_bytes() {
  const std::size_t machine =
      proc_field("/proc/meminfo", "MemAvailable").value_or(std::numeric_limits<std::size_t>::max());
  return std::min(machine, cgroup_memory_left().value_or(machine));
}

std::size_t resident_bytes() {
  return proc_field("/proc/self/status", "VmRSS").value_or(0);
}

std::size_t peak_resident_bytes() {
  return proc_field("/proc/self/status", "VmHWM").value_or(0);
}

void reset_peak_resident() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace tessera
