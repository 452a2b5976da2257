#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tessera/error.h>

#include "base/machine.h"

namespace tessera {
namespace {

TEST(ThreadPool, RunsEachWorkerOnce) {
  for (int n_threads : {1, 2, 3, 8}) {
    ThreadPool pool(n_threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<int> visits(n_threads, 0);
      pool.run([&](int worker) { ++visits[worker]; });
      EXPECT_EQ(visits, std::vector<int>(n_threads, 1));
    }
  }
}

TEST(ThreadPool, RunsEachTaskOnce) {
  for (int n_threads : {1, 2, 3}) {
    ThreadPool pool(n_threads);
    for (std::int64_t n_tasks : {0, 1, 2, 3, 100}) {
      std::vector<std::atomic<int>> visits(n_tasks);
      pool.parallel_for(n_tasks, [&](std::int64_t task, int worker) {
        EXPECT_LT(worker, n_threads);
        ++visits[task];
      });
      for (const auto& count : visits) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, RethrowsWhatATaskThrowsAndStaysUsable) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.parallel_for(10,
                                 [](std::int64_t task, int) {
                                   if (task == 7) throw std::runtime_error("task 7");
                                 }),
               std::runtime_error);
  std::atomic<int> sum{0};
  pool.parallel_for(10, [&](std::int64_t task, int) { sum += static_cast<int>(task); });
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> visits{0};
    pool.run([&](int) { ++visits; });
    EXPECT_EQ(visits, 3);
  }
}

TEST(ThreadPool, EveryWorkerBeginsWithItsOwnShare) {
  ThreadPool pool(3);
  for (std::int64_t n_tasks : {3, 7, 30}) {
    std::vector<std::int64_t> first(3, -1);
    std::atomic<int> started{0};
    pool.parallel_for(n_tasks, [&](std::int64_t task, int worker) {
      if (first[static_cast<std::size_t>(worker)] >= 0) return;
      first[static_cast<std::size_t>(worker)] = task;
      ++started;
      while (started < 3) std::this_thread::yield();  // so that nobody takes the others' tasks
    });
    EXPECT_EQ(first, (std::vector<std::int64_t>{0, n_tasks / 3, n_tasks * 2 / 3}));
  }
}

std::vector<std::vector<int>> cpus_of_workers(int n_threads, ThreadPool::Pinning pinning) {
  ThreadPool pool(n_threads, pinning);
  std::vector<std::vector<int>> cpus(static_cast<std::size_t>(n_threads));
  pool.run([&](int worker) { cpus[static_cast<std::size_t>(worker)] = allowed_cpus(); });
  return cpus;
}

TEST(ThreadPool, PinsItsOwnThreadsWhereEachHasACpu) {
  const std::vector<int> all = allowed_cpus();
  const int n = std::min(available_cpus(), 8);
  const auto pinned = cpus_of_workers(n, ThreadPool::Pinning::kOn);
  EXPECT_EQ(pinned[0], all);  // the calling thread stays as it was
  for (std::size_t i = 1; i < pinned.size(); ++i) EXPECT_EQ(pinned[i], std::vector<int>{all[i]});
  for (const auto& cpus : cpus_of_workers(n, ThreadPool::Pinning::kOff)) EXPECT_EQ(cpus, all);
  for (const auto& cpus : cpus_of_workers(available_cpus() + 1, ThreadPool::Pinning::kOn)) {
    EXPECT_EQ(cpus, all);
  }
  EXPECT_EQ(allowed_cpus(), all);
}

// As taskset does.
TEST(ThreadPool, RespectsTheAffinityOfTheProcess) {
  std::thread restricted([last = allowed_cpus().back()] {
    run_on_cpu(last);
    EXPECT_EQ(available_cpus(), 1);
    for (int n : {1, 2}) {
      for (const auto& cpus : cpus_of_workers(n, ThreadPool::Pinning::kOn)) {
        EXPECT_EQ(cpus, std::vector<int>{last});
      }
    }
  });
  restricted.join();
}

TEST(ThreadPool, RefusesAnEmptyOrAbsurdPool) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(ThreadPool::kMaxThreads + 1), Error);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void start_without_room_for_stacks() {
  const rlimit limit{1 << 30, 1 << 30};
  ::setrlimit(RLIMIT_AS, &limit);
  try {
    ThreadPool pool(1000);
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    ::_exit(7);
  }
  ::_exit(0);
}

TEST(ThreadPool, SaysHowManyThreadsTheSystemStarts) {
  EXPECT_EXIT(start_without_room_for_stacks(), ::testing::ExitedWithCode(7),
              "^only [0-9]+ of 1000 threads could be started \\(.*\\); use a smaller --threads$");
}
#endif

}  // namespace
}  // namespace tessera
