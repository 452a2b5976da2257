#include "app/analyze/chart/axis.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <fmt/format.h>

namespace tessera::app::analyze {

namespace {

// Digits behind the point that a multiple of a step needs.
int decimals_of(double step) {
  return std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
}

struct Step {
  double size;
  int decimals;
};

// The smallest round step that is no smaller.
Step round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return {factor * power, decimals_of(power)};
  }
  return {10 * power, decimals_of(10 * power)};
}

}  // namespace

AxisTicks::AxisTicks(const Axis& axis, double low, double high, int most)
    : scale_(axis.scale), factor_(axis.quantity.factor) {
  assert(low <= high && most >= 2);
  low *= factor_;
  high *= factor_;
  switch (scale_) {
    case Scale::kLinear:
      place_linear(low, high, most);
      break;
    case Scale::kLog2:
      place_log2(low, high, most);
      break;
    case Scale::kLog10:
      place_log10(low, high, most);
      break;
  }
}

void AxisTicks::add(double shown, int decimals) {
  ticks_.push_back({shown / factor_, fmt::format("{:.{}f}", shown, decimals)});
}

void AxisTicks::place_linear(double low, double high, int most) {
  if (low == high) high = low == 0 ? 1 : low + std::abs(low) / 2;
  // A step that is as large as fits the number of ticks; ends that are not ticks can add one.
  Step step = round_step((high - low) / (most - 1));
  auto first = std::floor(low / step.size + 1e-9);
  auto last = std::ceil(high / step.size - 1e-9);
  while (last - first + 1 > most) {
    step = round_step(step.size * 1.5);
    first = std::floor(low / step.size + 1e-9);
    last = std::ceil(high / step.size - 1e-9);
  }
  for (double i = first; i <= last; ++i) add(i * step.size, step.decimals);
  low_ = first * step.size;
  high_ = last * step.size;
}

// The ticks of decades `first` to `last` that lie within the ends: 1, 2 and 5 of each decade, or
// with a stride above 0 the 1 of every stride-th one.
void AxisTicks::add_decades(int first, int last, int stride) {
  ticks_.clear();
  for (int decade = first; decade <= last; ++decade) {
    if (stride > 1 && (decade - first) % stride != 0) continue;
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && stride > 0) continue;
      const double shown = factor * std::pow(10, decade);
      if (shown < low_ * (1 - 1e-9) || shown > high_ * (1 + 1e-9)) continue;
      add(shown, std::max(0, -decade));
    }
  }
}

void AxisTicks::place_log10(double low, double high, int most) {
  if (low == high) {
    low /= 2;
    high *= 2;
  }
  // The axis ends at 1, 2 or 5 of a decade.
  high_ = round_step(high).size;
  low_ = 1 / round_step(1 / low).size;
  const int first = static_cast<int>(std::floor(std::log10(low_) + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log10(high_) - 1e-9));
  int stride = 0;
  do {
    add_decades(first, last, stride++);
  } while (static_cast<int>(ticks_.size()) > most);
}

void AxisTicks::place_log2(double low, double high, int most) {
  if (low == high) {
    low /= 2;
    high *= 2;
  }
  low_ = low;
  high_ = high;
  const int first = static_cast<int>(std::ceil(std::log2(low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log2(high) + 1e-9));
  const int stride = std::max(1, (last - first + most) / most);
  for (int i = first; i <= last; i += stride) add(std::exp2(i), i < 0 ? -i : 0);
  if (!ticks_.empty()) return;
  add(low, 0);
  add(high, 0);
}

double AxisTicks::position(double value) const {
  const double shown = value * factor_;
  if (scale_ == Scale::kLinear) return (shown - low_) / (high_ - low_);
  return std::log(shown / low_) / std::log(high_ / low_);
}

}  // namespace tessera::app::analyze
