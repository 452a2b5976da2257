#include "graph/placement.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tessera::graph {

namespace {

constexpr std::size_t kLine = 64;  // bytes: workers' copies never share a cache line

std::size_t all_copies(const BufferInfo& buffer, int n_workers) {
  return copy_stride(buffer) * static_cast<std::size_t>(buffer.per_worker ? n_workers : 1);
}

std::vector<Lifetime> lifetimes(const Recording& recording, std::span<const int> phase_of) {
  std::vector<Lifetime> result(recording.buffers.size(),
                               Lifetime{std::numeric_limits<int>::max(), -1});
  const auto touch = [&](const Use& use, int phase) {
    Lifetime& life = result[static_cast<std::size_t>(use.buffer)];
    life.first = std::min(life.first, phase);
    life.last = std::max(life.last, phase);
  };
  for (std::size_t i = 0; i < recording.launches.size(); ++i) {
    for (const Use& use : recording.launches[i].info.reads) touch(use, phase_of[i]);
    for (const Use& use : recording.launches[i].info.writes) touch(use, phase_of[i]);
  }
  for (std::size_t b = 0; b < result.size(); ++b) {
    if (recording.buffers[b].from_outside) result[b].first = 0;
    if (recording.buffers[b].to_outside) result[b].last = std::numeric_limits<int>::max();
  }
  return result;
}

}  // namespace

std::size_t copy_stride(const BufferInfo& buffer) {
  return (buffer.bytes + kLine - 1) / kLine * kLine;
}

// The largest first, each at the lowest place that is free for as long as it lives.
Placement place(const Recording& recording, std::span<const int> phase_of) {
  const std::vector<BufferInfo>& buffers = recording.buffers;
  Placement placement;
  placement.lifetimes = lifetimes(recording, phase_of);
  placement.offsets.resize(buffers.size());
  std::vector<std::size_t> bytes;
  bytes.reserve(buffers.size());
  for (const BufferInfo& buffer : buffers) {
    bytes.push_back(all_copies(buffer, recording.n_workers));
    placement.sum_bytes += bytes.back();
  }
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return bytes[a] != bytes[b] ? bytes[a] > bytes[b] : a < b;
  });

  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t buffer : order) {
    if (bytes[buffer] == 0) continue;
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      if (!placement.lifetimes[buffer].overlaps(placement.lifetimes[other])) continue;
      if (placement.offsets[other] >= offset + bytes[buffer]) break;
      offset = std::max(offset, placement.offsets[other] + bytes[other]);
    }
    placement.offsets[buffer] = offset;
    placement.arena_bytes = std::max(placement.arena_bytes, offset + bytes[buffer]);
    placed.insert(std::ranges::upper_bound(placed, offset, {},
                                           [&](std::size_t b) { return placement.offsets[b]; }),
                  buffer);
  }
  return placement;
}

}  // namespace tessera::graph
