#include "app/compare/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <random>

namespace tessera::app {

namespace {

// Sorts what it is given.
double median_of(std::vector<double>& values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Between the two nearest of the sorted values, in proportion.
double quantile(const std::vector<double>& sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

Interval bootstrap(const std::vector<double>& samples) {
  std::mt19937_64 random;  // its standard seed
  // Not uniform_int_distribution, whose numbers each standard library makes in its own way.
  const auto drawn = [&] {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    return samples[static_cast<std::size_t>(unit * static_cast<double>(samples.size()))];
  };
  std::vector<double> medians;
  std::vector<double> resample(samples.size());
  for (int i = 0; i < kResamples; ++i) {
    std::ranges::generate(resample, drawn);
    medians.push_back(median_of(resample));
  }
  std::ranges::sort(medians);
  constexpr double kTail = (1 - kConfidence) / 2;
  return {quantile(medians, kTail), quantile(medians, 1 - kTail)};
}

}  // namespace

Speedup speedup_of(std::span<const double> a, std::span<const double> b) {
  assert(!a.empty() && a.size() == b.size());
  Speedup speedup;
  for (std::size_t i = 0; i < a.size(); ++i) speedup.samples.push_back(b[i] / a[i]);
  std::vector<double> sorted = speedup.samples;
  speedup.median = median_of(sorted);
  if (a.size() > 1) speedup.interval = bootstrap(speedup.samples);
  return speedup;
}

Verdict judge(const Speedup& speedup) {
  const double median = speedup.median;
  const std::optional<Interval>& interval = speedup.interval;
  if (std::abs(median - 1) < kSameWithin) {
    const bool either =
        interval && interval->low <= 1 - kSameWithin && interval->high >= 1 + kSameWithin;
    return either ? Verdict::kInconclusive : Verdict::kSame;
  }
  if (!interval || (interval->low <= 1 && interval->high >= 1)) return Verdict::kInconclusive;
  return median > 1 ? Verdict::kBFaster : Verdict::kAFaster;
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kAFaster:
      return "a_faster";
    case Verdict::kBFaster:
      return "b_faster";
    case Verdict::kInconclusive:
      return "inconclusive";
  }
  return {};
}

}  // namespace tessera::app
