// Implementations of an operator against one another and against the limits of the machine, all in
// one interleaved run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/series.h"
#include "ops/limits/machine_limits.h"

namespace tessera::ops {

struct Candidate {
  std::string name;
  std::function<void()> run;  // one call
  double bytes = 0;           // that it must read
  double operations = 0;      // of `dot`
  Dot dot = Dot::kF32;
};

// A sample for each round.
struct Compared {
  std::string name;
  Series seconds;        // of a call
  Series times_as_fast;  // as the baseline in the same round
  Series gb_per_second;
  Series gflop_per_second;
  Series share_of_limit;  // of what the machine could read or compute at that moment
};

struct Comparison {
  std::vector<Compared> candidates;  // in the order given
  Series read_gb_per_second;
  Series dot_gflop_per_second;  // of the first candidate's products
};

// Each round runs all candidates, every other round in reverse order, between two measurements of
// the limits. A sample is as many calls as take about two milliseconds. baseline: index of the
// candidate that the others are compared with. The first calls, which compile, are not counted.
Comparison compare(const std::vector<Candidate>& candidates, std::size_t baseline, int n_rounds,
                   MachineLimits& limits);

}  // namespace tessera::ops
