#include "base/machine.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>

#include <sched.h>

#include "base/cgroup.h"

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

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void run_on_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  std::ignore = ::sched_setaffinity(0, sizeof(set), &set);
}

int available_cpus() {
  int cpus = static_cast<int>(allowed_cpus().size());
  if (const auto quota = cgroup_cpus("/")) cpus = std::min(cpus, *quota);
  return std::max(cpus, 1);
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::size_t available_memory_bytes() {
  const std::size_t machine =
      proc_field("/proc/meminfo", "MemAvailable").value_or(std::numeric_limits<std::size_t>::max());
  return std::min(machine, cgroup_memory_left("/").value_or(machine));
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
