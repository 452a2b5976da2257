#include "base/series.h"

#include <algorithm>
#include <cassert>

namespace tessera {

double Series::median() const {
  assert(!samples_.empty());
  std::vector<double> sorted = samples_;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Series::min() const {
  assert(!samples_.empty());
  return *std::ranges::min_element(samples_);
}

double Series::max() const {
  assert(!samples_.empty());
  return *std::ranges::max_element(samples_);
}

}  // namespace tessera
