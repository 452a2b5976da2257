#include "base/cgroup.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tessera {

namespace {

namespace fs = std::filesystem;

template <typename T>
std::optional<T> read_number(const fs::path& path) {
  std::ifstream file(path);
  T value{};
  if (file >> value) return value;
  return std::nullopt;  // absent, or the word "max": no limit
}

// Whether a comma-separated list has this entry.
bool lists(const std::string& list, const std::string& entry) {
  std::istringstream entries(list);
  for (std::string name; std::getline(entries, name, ',');) {
    if (name == entry) return true;
  }
  return false;
}

// The groups of this process in one hierarchy, innermost first: in v2 (controller "") the line
// "0::PATH" of /proc/self/cgroup says where it is, in v1 the line "N:...,CONTROLLER,...:PATH".
std::vector<fs::path> groups(const fs::path& root, const std::string& controller) {
  const fs::path base = root / "sys/fs/cgroup" / controller;
  fs::path inner;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : lists(names, controller)) {
      inner = fs::path(line.substr(second + 1)).relative_path();
    }
  }
  std::vector<fs::path> folders;
  for (; !inner.empty(); inner = inner.parent_path()) folders.push_back(base / inner);
  folders.push_back(base);
  return folders;
}

template <typename T>
void keep_smaller(std::optional<T>& smallest, std::optional<T> value) {
  if (value && (!smallest || *value < *smallest)) smallest = value;
}

std::optional<int> cpus_of(double quota, double period) {
  if (quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<int>(std::ceil(quota / period));
}

// The value of a line "NAME 123" of memory.stat.
std::size_t stat_value(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string key;
  std::size_t value = 0;
  while (file >> key >> value) {
    if (key == name) return value;
  }
  return 0;
}

std::optional<std::size_t> left(const fs::path& group, const char* limit_file,
                                const char* used_file, const char* cached) {
  const auto limit = read_number<std::size_t>(group / limit_file);
  const auto used = read_number<std::size_t>(group / used_file);
  if (!limit || !used) return std::nullopt;
  const std::size_t needed = *used - std::min(*used, stat_value(group / "memory.stat", cached));
  return *limit - std::min(*limit, needed);
}

}  // namespace

std::optional<int> cgroup_cpus(const fs::path& root) {
  std::optional<int> cpus;
  for (const fs::path& group : groups(root, "")) {
    std::ifstream file(group / "cpu.max");
    double quota = 0;
    double period = 0;
    if (file >> quota >> period) keep_smaller(cpus, cpus_of(quota, period));
  }
  for (const fs::path& group : groups(root, "cpu")) {
    keep_smaller(cpus, cpus_of(read_number<double>(group / "cpu.cfs_quota_us").value_or(0),
                               read_number<double>(group / "cpu.cfs_period_us").value_or(0)));
  }
  return cpus;
}

std::optional<std::size_t> cgroup_memory_left(const fs::path& root) {
  std::optional<std::size_t> bytes;
  for (const fs::path& group : groups(root, "")) {
    keep_smaller(bytes, left(group, "memory.max", "memory.current", "inactive_file"));
  }
  for (const fs::path& group : groups(root, "memory")) {
    keep_smaller(bytes, left(group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                             "total_inactive_file"));
  }
  return bytes;
}

}  // namespace tessera
