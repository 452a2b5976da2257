#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

#include "app/analyze/sections.h"
#include "base/series.h"

namespace tessera::app::analyze {

namespace {

constexpr std::size_t kResamples = 2000;
constexpr double kOutside = 0.025;  // of the ratios, at each end
// The interval of a few samples is rough anyway; more would take long and change nothing.
constexpr std::size_t kMostSamples = 200;

double resampled_median(const std::vector<double>& samples, std::mt19937_64& random) {
  Series series;
  const std::size_t n = std::min(samples.size(), kMostSamples);
  for (std::size_t i = 0; i < n; ++i) series.add(samples[random() % samples.size()]);
  return series.median();
}

}  // namespace

Value with_extremes(const Measured& measured) {
  if (measured.samples.size() < 2) return {measured.median};
  return {measured.median, measured.min, measured.max};
}

Value with_middle_half(const Measured& measured) {
  if (measured.samples.size() < 2) return {measured.median};
  std::vector<double> sorted = measured.samples;
  std::ranges::sort(sorted);
  // Quartiles, between two samples where they fall there.
  const auto quantile = [&](double q) {
    const double at = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
  };
  return {measured.median, std::min(measured.median, quantile(0.25)),
          std::max(measured.median, quantile(0.75))};
}

Value ratio_of(const Measured& a, const Measured& b) {
  Value ratio{b.median / a.median};
  if (a.samples.size() < 2 || b.samples.size() < 2) return ratio;
  std::mt19937_64 random(1);  // the same interval whenever it is computed
  std::vector<double> ratios;
  for (std::size_t i = 0; i < kResamples; ++i) {
    const double of_a = resampled_median(a.samples, random);
    ratios.push_back(resampled_median(b.samples, random) / of_a);
  }
  std::ranges::sort(ratios);
  const auto skip = static_cast<std::size_t>(kOutside * kResamples);
  // The interval belongs to the ratio that is shown.
  ratio.low = std::min(ratio.median, ratios[skip]);
  ratio.high = std::max(ratio.median, ratios[kResamples - 1 - skip]);
  return ratio;
}

}  // namespace tessera::app::analyze
