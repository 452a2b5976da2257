// How the workers share the launches of a phase.
#pragma once

#include <span>
#include <vector>

#include "graph/recording.h"

namespace tessera::graph {

// A worker's part of a launch: of n tasks those from floor(from * n) to floor(to * n).
struct Share {
  double from = 0;
  double to = 0;

  std::int64_t begin(std::int64_t tasks) const { return at(from, tasks); }
  std::int64_t end(std::int64_t tasks) const { return at(to, tasks); }

 private:
  static std::int64_t at(double place, std::int64_t tasks) {
    return static_cast<std::int64_t>(place * static_cast<double>(tasks));
  }
};

// What a launch costs before it was measured, in seconds: its work on a machine that reads 30 GB
// and computes 100 G operations a second for each worker, and what starting it takes.
double estimated_seconds(const Work& work);

// Cuts the launches [first, first + n) of one phase so that every worker has as much to do; what
// kEvery launches take is the same for all, and kOne launches are worker 0's. seconds: of every
// launch of the recording, on one worker. Returns n_workers shares for each launch of the phase,
// launch by launch.
std::vector<Share> share_phase(const Recording& recording, std::size_t first, std::size_t n,
                               std::span<const double> seconds);

}  // namespace tessera::graph
