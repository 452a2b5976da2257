// Where the workers of a replay wait for each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::graph {

// Counts arrivals. All workers pass the same barriers in the same order, so the k-th is open once
// k times as many have arrived as there are workers.
class Barrier {
 public:
  explicit Barrier(int n_workers) : n_workers_(n_workers) {}

  // Before the first wait() of a round, while no worker waits.
  void reset() { arrived_.store(0, std::memory_order_relaxed); }

  // index: 1 for a worker's first barrier since reset(), then 2, ...
  void wait(std::int64_t index) {
    const std::int64_t all = index * n_workers_;
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == all) return;
    for (int spin = 0; arrived_.load(std::memory_order_acquire) < all; ++spin) {
      if (spin < kSpins) {
        pause();
      } else {
        std::this_thread::yield();  // the other may need this CPU
      }
    }
  }

 private:
  // About 20 us: longer than workers are apart at the end of a phase where each has a CPU.
  static constexpr int kSpins = 4000;

  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

  const int n_workers_;
  alignas(64) std::atomic<std::int64_t> arrived_{0};
};

}  // namespace tessera::graph
