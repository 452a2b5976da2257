// What a number means, and how it is written: its unit, the factor from the unit of the file to
// that of the page, and digits behind the point.
#pragma once

#include <string>

namespace tessera::app::analyze {

struct Quantity {
  std::string unit;  // "" for a plain number
  double factor = 1;
  int decimals = 0;

  std::string text(double value) const;  // without the unit
};

inline const Quantity kCount = {"", 1, 0};
inline const Quantity kTokensPerSecond = {"tokens/s", 1, 1};
inline const Quantity kMilliseconds = {"ms", 1e3, 3};
inline const Quantity kMicroseconds = {"µs", 1e6, 1};
inline const Quantity kMegabytes = {"MB", 1e-6, 1};
inline const Quantity kGigabytesPerSecond = {"GB/s", 1, 1};
inline const Quantity kGigaflops = {"GFLOP/s", 1, 1};
inline const Quantity kPercent = {"%", 100, 1};
inline const Quantity kTimes = {"×", 1, 3};

}  // namespace tessera::app::analyze
