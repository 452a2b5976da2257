#include "ops/limits/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <unistd.h>

namespace tessera::ops {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Threads take tasks as those of a product do, so that one which is held up leaves the rest to the
// others.
constexpr std::int64_t kTaskBytes = std::int64_t{2} << 20;
constexpr std::int64_t kTasksPerThread = 8;
constexpr std::int64_t kLeastBytes = std::int64_t{256} << 20;
constexpr std::int64_t kFirstTurns = 4000;  // some microseconds

std::int64_t memory_tasks() {
  const std::int64_t last_cache = std::max<std::int64_t>(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
  return std::max(kLeastBytes, 4 * last_cache) / kTaskBytes;
}

// How often something that took `seconds` is to be done to take `wanted`.
std::int64_t times_for(double wanted, double seconds) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted / std::max(seconds, 1e-9)));
}

}  // namespace

MachineLimits::MachineLimits(Executor& executor)
    : executor_(executor), memory_(static_cast<std::size_t>(memory_tasks() * kTaskBytes)) {
  const std::int64_t all = memory_tasks();
  executor_.pool().parallel_for(all, [&](std::int64_t task, int) {
    std::memset(memory_.data() + task * kTaskBytes, 1, kTaskBytes);
  });
  read_tasks_ = times_for(kReadSeconds, read_once(all) / static_cast<double>(all));
  for (Dot d : tile::kDots) {
    dot_once(d, kFirstTurns);  // wakes the threads
    turns_[static_cast<std::size_t>(d)] =
        kFirstTurns * times_for(kDotSeconds, dot_once(d, kFirstTurns));
  }
}

// Seconds.
double MachineLimits::read_once(std::int64_t tasks) {
  const std::int64_t all = static_cast<std::int64_t>(memory_.size()) / kTaskBytes;
  const auto start = Clock::now();
  executor_.pool().parallel_for(tasks, [&](std::int64_t task, int) {
    const std::int64_t begin = (next_ + task) % all * kTaskBytes;
    limits_.read(memory_.data(), begin, begin + kTaskBytes);
  });
  const double seconds = seconds_since(start);
  next_ = (next_ + tasks) % all;
  return seconds;
}

double MachineLimits::dot_once(Dot dot, std::int64_t turns) {
  const auto start = Clock::now();
  executor_.pool().parallel_for(kTasksPerThread * executor_.n_threads(),
                                [&](std::int64_t, int) { limits_.compute(dot, turns); });
  return seconds_since(start);
}

double MachineLimits::read() {
  return static_cast<double>(read_tasks_ * kTaskBytes) / read_once(read_tasks_);
}

double MachineLimits::dot(Dot dot) {
  const std::int64_t turns = turns_[static_cast<std::size_t>(dot)];
  const double operations = limits_.operations(dot, turns);
  return operations * static_cast<double>(kTasksPerThread * executor_.n_threads()) /
         dot_once(dot, turns);
}

}  // namespace tessera::ops
