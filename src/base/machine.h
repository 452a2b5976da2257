// What this process may use of the machine: CPUs and memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera {

// The CPUs in the affinity mask of the calling thread, ascending.
std::vector<int> allowed_cpus();
// Keeps the calling thread on one of them; where the system refuses that, it runs as before.
void run_on_cpu(int cpu);

// CPUs in the affinity mask, bounded by the cgroup CPU quota (v1 or v2), at least 1.
int available_cpus();

// What the CPU calls itself; "unknown" where the system does not say.
std::string cpu_name();

// Bytes that can still be allocated without swapping: the kernel's MemAvailable, bounded by what
// the cgroup leaves.
std::size_t available_memory_bytes();

// Resident memory of this process now, and its highest value since the last reset_peak_resident().
std::size_t resident_bytes();
std::size_t peak_resident_bytes();
void reset_peak_resident();  // where the kernel refuses, the peak stays that of the whole run

}  // namespace tessera
