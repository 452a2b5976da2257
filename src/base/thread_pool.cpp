#include "base/thread_pool.h"

#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/fail.h"
#include "base/machine.h"

namespace tessera {

namespace {

// Longer than the gap between two operators of one step, shorter than a time slice, so that a
// machine that is shared loses little.
constexpr int kSpins = 4000;
// Then others may run in between.
constexpr int kYields = 32;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits until value differs from old.
template <typename T>
void wait_while_equal(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  for (int yield = 0; yield < kYields; ++yield) {
    if (value.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int n_threads, Pinning pinning) : n_threads_(n_threads) {
  if (n_threads < 1 || n_threads > kMaxThreads) {
    fail(ErrorCode::kInvalidArgument, "the number of threads must be from 1 to {}, not {}",
         kMaxThreads, n_threads);
  }
  shares_ = std::vector<Share>(static_cast<std::size_t>(n_threads));
  const bool pins = pinning == Pinning::kOn && n_threads <= available_cpus();
  const std::vector<int> cpus = pins ? allowed_cpus() : std::vector<int>();
  try {
    for (int worker = 1; worker < n_threads; ++worker) {
      const int cpu = pins ? cpus[static_cast<std::size_t>(worker)] : -1;
      threads_.emplace_back([this, worker, cpu] {
        if (cpu >= 0) run_on_cpu(cpu);
        work(worker);
      });
    }
  } catch (const std::exception& error) {  // the system has no more threads, or no more memory
    stop();
    fail(ErrorCode::kOutOfMemory,
         "only {} of {} threads could be started ({}); use a smaller --threads",
         threads_.size() + 1, n_threads, error.what());
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::enter(int worker) {
  const auto start =
      observer_ == nullptr ? RegionObserver::Time() : std::chrono::steady_clock::now();
  try {
    region_(context_, worker);
  } catch (...) {  // handed to the caller of run(): nothing is hidden
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
  if (observer_ != nullptr) observer_->ran(worker, start, std::chrono::steady_clock::now());
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while_equal(generation_, seen);
    ++seen;
    if (stopping_.load(std::memory_order_relaxed)) return;
    enter(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadPool::run_region(Region region, void* context) {
  region_ = region;
  context_ = context;
  running_.store(n_threads_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  enter(0);
  for (int left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    wait_while_equal(running_, left);
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace tessera
