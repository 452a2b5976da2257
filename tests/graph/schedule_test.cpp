// The workers' shares of a phase cover every task once and cost about the same.
#include "graph/schedule.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tessera::graph {
namespace {

Recording recording_of(int n_workers, const std::vector<Spread>& spreads) {
  Recording recording;
  recording.n_workers = n_workers;
  for (const Spread spread : spreads) {
    Launch launch;
    launch.info.spread = spread;
    recording.launches.push_back(launch);
  }
  return recording;
}

TEST(Schedule, SharesCoverEveryTaskOnce) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const int workers = 1 + static_cast<int>(random() % 5);
    std::vector<Spread> spreads;
    std::vector<double> seconds;
    for (unsigned i = 0; i < 1 + random() % 4; ++i) {
      spreads.push_back(random() % 4 == 0 ? Spread::kOne : Spread::kShared);
      seconds.push_back(1e-9 + static_cast<double>(random() % 1000) * 1e-7);
    }
    const Recording recording = recording_of(workers, spreads);
    const auto shares = share_phase(recording, 0, spreads.size(), seconds);
    for (std::size_t i = 0; i < spreads.size(); ++i) {
      if (spreads[i] != Spread::kShared) continue;
      for (const std::int64_t tasks : {0, 1, 2, 7, 64, 1000}) {
        std::int64_t next = 0;
        for (int w = 0; w < workers; ++w) {
          const Share& share =
              shares[i * static_cast<std::size_t>(workers) + static_cast<std::size_t>(w)];
          EXPECT_EQ(share.begin(tasks), next);
          next = share.end(tasks);
        }
        EXPECT_EQ(next, tasks);
      }
    }
  }
}

TEST(Schedule, TheFirstWorkerHasLessOfWhatIsSharedForWhatItDoesAlone) {
  const Recording recording = recording_of(2, {Spread::kOne, Spread::kShared, Spread::kShared});
  const std::vector<double> seconds = {2, 3, 5};
  const auto shares = share_phase(recording, 0, 3, seconds);
  // Five seconds each: the first worker has the other launch's two, and three of the rest.
  EXPECT_EQ(shares[2].end(100), 100);
  EXPECT_EQ(shares[3].end(100) - shares[3].begin(100), 0);
  EXPECT_EQ(shares[4].end(100), 0);
  EXPECT_EQ(shares[5].end(100) - shares[5].begin(100), 100);
}

TEST(Schedule, AFirstWorkerWithTooMuchOfItsOwnHasNothingElse) {
  const Recording recording = recording_of(3, {Spread::kOne, Spread::kShared});
  const std::vector<double> seconds = {10, 2};
  const auto shares = share_phase(recording, 0, 2, seconds);
  EXPECT_EQ(shares[3].end(10), 0);
  EXPECT_EQ(shares[4].end(10), 5);
  EXPECT_EQ(shares[5].end(10), 10);
}

}  // namespace
}  // namespace tessera::graph
