// Where operators run: the thread pool, and what each worker keeps between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "ops/step_profile.h"

namespace tessera::ops {

struct MatmulCache;  // ops/matmul: compiled oneDNN primitives

// A worker's own memory. Only that worker touches it, so nothing here is locked.
class Worker {
 public:
  Worker();
  ~Worker();
  Worker(Worker&&) noexcept;

  // At least n elements of T, undefined content, valid until the next call with the same slot.
  // Slots keep an operator's several scratch arrays apart.
  template <typename T>
  T* scratch(int slot, std::int64_t n) {
    return reinterpret_cast<T*>(scratch_bytes(slot, static_cast<std::size_t>(n) * sizeof(T)));
  }

  // Operators that call others keep their arrays apart from those of what they call: matmul() uses
  // the slots before this one.
  static constexpr int kPrologSlot = 3;
  static constexpr int kStageSlot = 4;  // between the stages of a prolog
  static constexpr int kLinearSlot = 5;
  static constexpr int kFeedForwardSlot = 6;
  static constexpr int kAttentionSlot = 7;      // of one task
  static constexpr int kAttentionCallSlot = 8;  // of the whole call

  MatmulCache& matmul_cache() { return *matmul_cache_; }

 private:
  static constexpr int kSlots = 9;
  std::byte* scratch_bytes(int slot, std::size_t bytes);

  Buffer scratch_[kSlots];
  std::unique_ptr<MatmulCache> matmul_cache_;
};

class Executor {
 public:
  // About 40 us of one thread's work. A fork and join of awake threads takes a microsecond, but
  // between small regions the threads fall asleep, and waking them takes as long as this work.
  static constexpr std::int64_t kMinParallelWork = std::int64_t{1} << 20;

  // Regions of less than min_parallel_work run on one thread (tests set 0 to see every region
  // shared).
  explicit Executor(int n_threads, std::int64_t min_parallel_work = kMinParallelWork,
                    ThreadPool::Pinning pinning = ThreadPool::Pinning::kOff)
      : min_parallel_work_(min_parallel_work), pool_(n_threads, pinning), workers_(n_threads) {}

  int n_threads() const { return pool_.size(); }
  ThreadPool& pool() { return pool_; }
  std::int64_t min_parallel_work() const { return min_parallel_work_; }
  // For work as in parallel_for: all threads, or the calling one where it is too little.
  ThreadPool& pool(std::int64_t work) { return work < min_parallel_work_ ? caller_ : pool_; }
  Worker& worker(int index) { return workers_[static_cast<std::size_t>(index)]; }

  // Who is told what runs, or nobody.
  void observe(StepProfile* profile) { profile_ = profile; }
  StepProfile* profile() const { return profile_; }

  // body(task, worker) for each task in [0, n_tasks), as ThreadPool::parallel_for. work is the
  // number of multiply-adds of all tasks together, roughly: too little is not worth waking the
  // other threads.
  template <typename Body>
  void parallel_for(std::int64_t n_tasks, std::int64_t work, Body&& body) {
    const RegionScope region(profile_);
    if (work < min_parallel_work_) {
      for (std::int64_t task = 0; task < n_tasks; ++task) body(task, worker(0));
      return;
    }
    pool_.parallel_for(n_tasks, [&](std::int64_t task, int index) { body(task, worker(index)); });
  }

 private:
  const std::int64_t min_parallel_work_;
  ThreadPool pool_;
  ThreadPool caller_{1};
  std::vector<Worker> workers_;
  StepProfile* profile_ = nullptr;
};

}  // namespace tessera::ops
