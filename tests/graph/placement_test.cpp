// Buffers that live at the same time never share memory; others do.
#include "graph/placement.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tessera::graph {
namespace {

// A launch in each phase, which touches some buffers.
Recording recording_of(const std::vector<std::size_t>& bytes,
                       const std::vector<std::vector<BufferId>>& uses, int n_workers = 1) {
  Recording recording;
  recording.n_workers = n_workers;
  for (const std::size_t b : bytes) {
    BufferInfo info;
    info.bytes = b;
    recording.buffers.push_back(info);
  }
  for (const auto& ids : uses) {
    Launch launch;
    for (const BufferId id : ids) launch.info.writes.push_back({id});
    recording.launches.push_back(launch);
  }
  return recording;
}

std::vector<int> own_phases(const Recording& recording) {
  std::vector<int> phases;
  for (int i = 0; i < std::ssize(recording.launches); ++i) phases.push_back(i);
  return phases;
}

TEST(Placement, ReusesMemoryOfBuffersThatAreOver) {
  const Recording recording = recording_of({64, 64, 64, 64}, {{0}, {0, 1}, {1, 2}, {2, 3}});
  const Placement placement = place(recording, own_phases(recording));
  EXPECT_EQ(placement.arena_bytes, 128u);
  EXPECT_EQ(placement.sum_bytes, 256u);
}

TEST(Placement, KeepsWhatComesFromOutsideAndGoesThere) {
  Recording recording = recording_of({64, 64, 64}, {{0}, {1}, {2}});
  EXPECT_EQ(place(recording, own_phases(recording)).arena_bytes, 64u);
  recording.buffers[2].from_outside = true;
  recording.buffers[0].to_outside = true;
  EXPECT_EQ(place(recording, own_phases(recording)).arena_bytes, 192u);
}

TEST(Placement, GivesEveryWorkerItsCopyOnLinesOfItsOwn) {
  Recording recording = recording_of({1, 65}, {{0, 1}}, 3);
  recording.buffers[0].per_worker = true;
  const Placement placement = place(recording, own_phases(recording));
  EXPECT_EQ(copy_stride(recording.buffers[0]), 64u);
  EXPECT_EQ(placement.arena_bytes, 3 * 64u + 128u);
}

TEST(Placement, NeverOverlapsWhatLivesTogether) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> bytes;
    for (int b = 0; b < 12; ++b) bytes.push_back(random() % 5 * 40);
    std::vector<std::vector<BufferId>> uses(8);
    for (auto& ids : uses) {
      for (int i = 0; i < 3; ++i) ids.push_back(static_cast<BufferId>(random() % 12));
    }
    Recording recording = recording_of(bytes, uses, 2);
    for (BufferInfo& info : recording.buffers) info.per_worker = random() % 3 == 0;
    const Placement placement = place(recording, own_phases(recording));
    const auto end = [&](std::size_t b) {
      return placement.offsets[b] +
             copy_stride(recording.buffers[b]) * (recording.buffers[b].per_worker ? 2 : 1);
    };
    for (std::size_t a = 0; a < bytes.size(); ++a) {
      if (bytes[a] > 0) {
        EXPECT_LE(end(a), placement.arena_bytes);
      }
      for (std::size_t b = 0; b < a; ++b) {
        if (bytes[a] == 0 || bytes[b] == 0) continue;
        if (!placement.lifetimes[a].overlaps(placement.lifetimes[b])) continue;
        EXPECT_TRUE(end(a) <= placement.offsets[b] || end(b) <= placement.offsets[a]);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::graph
