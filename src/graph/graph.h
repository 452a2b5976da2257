// A captured step: recorded once, planned, and replayed with other values in the same memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "graph/barrier.h"
#include "graph/phases.h"
#include "graph/placement.h"
#include "graph/recorder.h"
#include "graph/schedule.h"

namespace tessera::graph {

struct GraphOptions {
  Merging merging = Merging::kPhases;
  // Whether each worker's tasks are fixed ahead, by what launches cost when they were first
  // replayed; else workers take tasks as they come to them.
  bool static_shares = true;
  bool frozen_weights = true;  // see Recorder
};

// When the workers ran what, in one replay.
struct Timing {
  using Time = std::chrono::steady_clock::time_point;
  struct Span {
    Time start;
    Time end;
  };
  std::vector<Span> launches;  // [worker, launch]: empty where a worker had none of its tasks
  std::vector<Span> waits;     // [worker, phase]: for the others, at the end of the phase
};

class Graph {
 public:
  // record is called twice and must record the same both times. Throws what it throws, and
  // Error(kOutOfMemory).
  static Graph capture(int n_workers, const GraphOptions& options,
                       const std::function<void(Recorder&)>& record);

  // Before a replay of another number of rows: throws what the bodies' actions throw.
  void resize() const;

  // Runs all launches on the pool, which has n_workers() threads. Neither allocates nor locks
  // anything but the pool itself.
  void replay(ThreadPool& pool);
  // The same, measuring. The timing is valid until the next replay.
  const Timing& replay_measured(ThreadPool& pool);

  int n_workers() const { return recording_.n_workers; }
  const Recording& recording() const { return recording_; }
  const Placement& placement() const { return placement_; }
  int n_phases() const { return static_cast<int>(phase_ends_.size()); }
  int phase_of(std::size_t launch) const { return phase_of_[launch]; }
  const Share& share(std::size_t launch, int worker) const {
    return shares_[launch * static_cast<std::size_t>(n_workers()) +
                   static_cast<std::size_t>(worker)];
  }
  std::span<std::byte> arena() { return {arena_.data(), placement_.arena_bytes}; }

 private:
  Graph(int n_workers, const GraphOptions& options)
      : options_(options), barrier_(std::make_unique<Barrier>(n_workers)) {}

  void plan_shares(std::span<const double> seconds);
  void run(ThreadPool& pool, Timing* timing);
  void run_worker(int worker, Timing* timing);
  void run_launch(std::size_t index, int worker);
  void learn(const Timing& timing);

  GraphOptions options_;
  Recording recording_;
  std::vector<int> phase_of_;            // of every launch
  std::vector<std::size_t> phase_ends_;  // the launch behind every phase's last
  Placement placement_;
  Buffer arena_;
  std::vector<Share> shares_;  // [launch, worker]
  std::unique_ptr<Barrier> barrier_;
  std::unique_ptr<std::atomic<std::int64_t>[]>
      next_tasks_;  // of every launch, without fixed shares
  Timing timing_;
  std::vector<double> seconds_;  // of every launch: the least seen so far, of all workers together
  int n_measured_ = 0;
};

}  // namespace tessera::graph
