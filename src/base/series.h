// Repeated measurements of one thing, told as median, smallest and largest.
#pragma once

#include <vector>

namespace tessera {

class Series {
 public:
  void reserve(std::size_t n) { samples_.reserve(n); }
  void add(double sample) { samples_.push_back(sample); }
  const std::vector<double>& samples() const { return samples_; }  // in the order of measurement

  // Of at least one sample. The median of an even number is the mean of the two in the middle.
  double median() const;
  double min() const;
  double max() const;

 private:
  std::vector<double> samples_;
};

}  // namespace tessera
