#include "graph/schedule.h"

#include <algorithm>

namespace tessera::graph {

double estimated_seconds(const Work& work) {
  constexpr double kStart = 2e-7;
  return kStart + std::max(work.bytes / 30e9, work.operations / 100e9);
}

std::vector<Share> share_phase(const Recording& recording, std::size_t first, std::size_t n,
                               std::span<const double> seconds) {
  const auto n_workers = static_cast<std::size_t>(recording.n_workers);
  double one = 0;  // what worker 0 does alone
  double shared = 0;
  for (std::size_t i = first; i < first + n; ++i) {
    const Spread spread = recording.launches[i].info.spread;
    if (spread == Spread::kOne) one += seconds[i];
    if (spread == Spread::kShared) shared += seconds[i];
  }
  // The shared launches stand one after another on a line, and every worker takes a piece of it:
  // worker 0 what is left of its part after its own, the others the same each.
  const double part = (one + shared) / static_cast<double>(n_workers);
  const double of_first = n_workers == 1 ? shared : std::max(0.0, part - one);
  const double of_others =
      n_workers == 1 ? 0 : (shared - of_first) / static_cast<double>(n_workers - 1);
  std::vector<double> ends;  // on the line, of each worker's piece
  for (std::size_t w = 0; w < n_workers; ++w) {
    ends.push_back(of_first + of_others * static_cast<double>(w));
  }

  std::vector<Share> shares(n * n_workers);
  double start = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (recording.launches[first + i].info.spread != Spread::kShared) continue;
    const double length = seconds[first + i];
    double from = 0;
    for (std::size_t w = 0; w < n_workers; ++w) {
      const bool last = w + 1 == n_workers;
      const double to = last ? 1 : std::clamp((ends[w] - start) / length, from, 1.0);
      shares[i * n_workers + w] = {from, to};
      from = to;
    }
    start += length;
  }
  return shares;
}

}  // namespace tessera::graph
