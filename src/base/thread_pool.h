// A fixed set of threads that run short parallel regions.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace tessera {

// Told when a worker was inside a region: by that worker, so that several may tell at once.
class RegionObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~RegionObserver() = default;
  virtual void ran(int worker, Time start, Time end) = 0;
};

// run() wakes every worker, takes part as worker 0, and returns when all are done. Waiting threads
// spin for a bounded time, then let others run, then sleep. One region at a time; run() is not
// re-entrant. The first exception thrown in a region is rethrown by run() after all workers have
// left it.
class ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;
  // kOn: the threads of the pool stay on one CPU each, in the order of the CPUs that the process
  // may use; the first is left to the calling thread, which is not pinned (it is not ours, and
  // threads that it starts later would be pinned with it). Without effect where there are fewer
  // CPUs, or less of their time, than threads.
  enum class Pinning { kOff, kOn };

  // n_threads: 1 to kMaxThreads, else Error(kInvalidArgument). Throws Error(kOutOfMemory) where the
  // system does not start that many.
  explicit ThreadPool(int n_threads, Pinning pinning = Pinning::kOff);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return n_threads_; }

  // Between regions only; nullptr: nobody, at the cost of a test.
  void observe(RegionObserver* observer) { observer_ = observer; }

  // body(worker) once on each worker, worker in [0, size()).
  template <typename Body>
  void run(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_region([](void* context, int worker) { (*static_cast<Plain*>(context))(worker); },
               const_cast<void*>(static_cast<const void*>(&body)));
  }

  // body(task, worker) once for each task in [0, n_tasks): results must not depend on which worker
  // runs a task. Each worker begins with its own share, one range of tasks, so that calls of the
  // same cut meet the same memory; whoever is done takes from the others' shares.
  template <typename Body>
  void parallel_for(std::int64_t n_tasks, Body&& body) {
    if (n_tasks <= 0) return;
    if (n_tasks == 1 || n_threads_ == 1) {
      for (std::int64_t task = 0; task < n_tasks; ++task) body(task, 0);
      return;
    }
    for (std::int64_t w = 0; w < n_threads_; ++w) {
      Share& share = shares_[static_cast<std::size_t>(w)];
      share.next.store(n_tasks * w / n_threads_, std::memory_order_relaxed);
      share.end = n_tasks * (w + 1) / n_threads_;
    }
    run([&](int worker) {
      for (int i = 0; i < n_threads_; ++i) {
        Share& share = shares_[static_cast<std::size_t>((worker + i) % n_threads_)];
        for (std::int64_t task = share.next++; task < share.end; task = share.next++) {
          body(task, worker);
        }
      }
    });
  }

 private:
  using Region = void (*)(void* context, int worker);
  struct alignas(64) Share {  // of the tasks of a parallel_for
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  void run_region(Region region, void* context);
  void work(int worker);
  void stop();             // ends and joins all threads that were started
  void enter(int worker);  // runs the current region, keeping its exception

  const int n_threads_;
  RegionObserver* observer_ = nullptr;
  Region region_ = nullptr;
  void* context_ = nullptr;
  std::atomic<std::uint32_t> generation_{0};  // a new value starts a region
  std::atomic<int> running_{0};               // workers still inside it
  std::atomic<bool> stopping_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<Share> shares_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera
