#include "ops/limits/comparison.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace tessera::ops {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSampleSeconds = 0.002;
constexpr int kMostCalls = 256;

// Of one call.
double seconds_of(const Candidate& candidate, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) candidate.run();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

int calls_of(const Candidate& candidate) {
  candidate.run();
  const double seconds = std::max(seconds_of(candidate, 1), 1e-9);
  return std::clamp(static_cast<int>(std::ceil(kSampleSeconds / seconds)), 1, kMostCalls);
}

struct Limit {
  double read = 0;
  std::array<double, std::size(tile::kDots)> dots = {};

  double of(Dot dot) const { return dots[static_cast<std::size_t>(dot)]; }
};

Limit limit_now(const std::vector<Candidate>& candidates, MachineLimits& limits) {
  Limit limit;
  limit.read = limits.read();
  for (const Candidate& candidate : candidates) {
    double& peak = limit.dots[static_cast<std::size_t>(candidate.dot)];
    if (peak == 0 && candidate.operations > 0) peak = limits.dot(candidate.dot);
  }
  return limit;
}

Limit mean(const Limit& a, const Limit& b) {
  Limit limit;
  limit.read = (a.read + b.read) / 2;
  for (std::size_t i = 0; i < limit.dots.size(); ++i) limit.dots[i] = (a.dots[i] + b.dots[i]) / 2;
  return limit;
}

void add(Compared& to, const Candidate& candidate, double seconds, double baseline_seconds,
         const Limit& limit) {
  double least = candidate.bytes / limit.read;
  if (candidate.operations > 0) {
    least = std::max(least, candidate.operations / limit.of(candidate.dot));
  }
  to.seconds.add(seconds);
  to.times_as_fast.add(baseline_seconds / seconds);
  to.gb_per_second.add(candidate.bytes / seconds / 1e9);
  to.gflop_per_second.add(candidate.operations / seconds / 1e9);
  to.share_of_limit.add(least / seconds);
}

}  // namespace

Comparison compare(const std::vector<Candidate>& candidates, std::size_t baseline, int n_rounds,
                   MachineLimits& limits) {
  Comparison comparison;
  std::vector<int> calls;
  for (const Candidate& candidate : candidates) {
    comparison.candidates.emplace_back().name = candidate.name;
    calls.push_back(calls_of(candidate));
  }
  std::vector<double> seconds(candidates.size());
  Limit before = limit_now(candidates, limits);
  for (int round = 0; round < n_rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::size_t c = round % 2 == 0 ? i : candidates.size() - 1 - i;
      seconds[c] = seconds_of(candidates[c], calls[c]);
    }
    const Limit after = limit_now(candidates, limits);
    const Limit limit = mean(before, after);
    before = after;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      add(comparison.candidates[c], candidates[c], seconds[c], seconds[baseline], limit);
    }
    comparison.read_gb_per_second.add(limit.read / 1e9);
    comparison.dot_gflop_per_second.add(limit.of(candidates.front().dot) / 1e9);
  }
  return comparison;
}

}  // namespace tessera::ops
