#include "base/numa.h"

#include <cstdint>
#include <fstream>
#include <limits>

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tessera {

namespace {

constexpr int kMaxNodes = 1024;  // as in Linux

}  // namespace

// The file holds a list like 0-1,4.
std::vector<int> numa_nodes(const std::filesystem::path& root) {
  std::ifstream file(root / "sys/devices/system/node/online");
  std::vector<int> nodes;
  for (int first = 0; file >> first;) {
    int last = first;
    if (file.peek() == '-' && !(file.ignore() >> last)) break;
    for (int node = first; 0 <= node && node <= last && node < kMaxNodes; ++node) {
      nodes.push_back(node);
    }
    if (file.peek() != ',') break;
    file.ignore();
  }
  if (nodes.empty()) nodes.push_back(0);
  return nodes;
}

bool interleave_over(const std::vector<int>& nodes, const void* data, std::size_t bytes) {
  constexpr int kBits = std::numeric_limits<unsigned long>::digits;
  unsigned long mask[kMaxNodes / kBits] = {};
  for (int node : nodes) mask[node / kBits] |= 1UL << node % kBits;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  if (begin >= end) return true;
  // Without libnuma, whose call this is.
  return ::syscall(SYS_mbind, begin, end - begin, MPOL_INTERLEAVE, mask, kMaxNodes + 1, 0) == 0;
}

void interleave_over_nodes(const void* data, std::size_t bytes) {
  const std::vector<int> nodes = numa_nodes("/");
  if (nodes.size() > 1) interleave_over(nodes, data, bytes);
}

}  // namespace tessera
