// Axes of charts: which numbers stand at them, and where a value lies.
#pragma once

#include <string>
#include <vector>

#include "app/analyze/document.h"

namespace tessera::app::analyze {

// Ticks are round numbers of the quantity as it is shown: 1, 2 or 5 times a power of ten, or powers
// of two. The ends of the axis enclose the data; those of a linear axis are ticks.
class AxisTicks {
 public:
  struct Tick {
    double value;  // in the unit of the file
    std::string text;
  };

  // For data from low to high, both greater than 0 where the scale is logarithmic, with at most
  // `most` ticks, at least 2.
  AxisTicks(const Axis& axis, double low, double high, int most);

  const std::vector<Tick>& ticks() const { return ticks_; }
  // 0 at the lower end, 1 at the upper one.
  double position(double value) const;

 private:
  void place_linear(double low, double high, int most);
  void place_log10(double low, double high, int most);
  void add_decades(int first, int last, int stride);
  void place_log2(double low, double high, int most);
  void add(double shown, int decimals);

  Scale scale_;
  double factor_;
  double low_ = 0;  // the ends, as shown
  double high_ = 1;
  std::vector<Tick> ticks_;
};

}  // namespace tessera::app::analyze
