// Memory on machines with several NUMA nodes, where a thread reads its own node's faster.
//
// Memory lies on the node of the thread that touches it first. Weights that are packed into memory
// so come to the threads that read them (ThreadPool::parallel_for); what any thread may read is
// better spread over all nodes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace tessera {

// The nodes that are online, ascending; {0} where the system does not say. root as in
// base/cgroup.h.
std::vector<int> numa_nodes(const std::filesystem::path& root);

// Pages of [data, data + bytes) that are touched later will come from all nodes in turn. Without
// effect on a machine of one node, and where the system refuses it. Whole pages only.
void interleave_over_nodes(const void* data, std::size_t bytes);

// The same over the given nodes; says whether the system took it.
bool interleave_over(const std::vector<int>& nodes, const void* data, std::size_t bytes);

}  // namespace tessera
