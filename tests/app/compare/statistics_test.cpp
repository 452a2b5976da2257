#include "app/compare/statistics.h"

#include <vector>

#include <gtest/gtest.h>

namespace tessera::app {
namespace {

std::vector<double> ones(std::size_t n) {
  return std::vector<double>(n, 1.0);
}

Speedup of(const std::vector<double>& ratios) {
  return speedup_of(ones(ratios.size()), ratios);
}

Speedup speedup(double median, double low, double high) {
  return {median, Interval{low, high}, {}};
}

TEST(Speedup, PairsTheRounds) {
  // Rounds of very different speed, in which B is always twice as fast.
  const Speedup s = speedup_of(std::vector<double>{1, 100, 7}, std::vector<double>{2, 200, 14});
  EXPECT_EQ(s.samples, (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(s.median, 2);
  EXPECT_EQ(s.interval->low, 2);
  EXPECT_EQ(s.interval->high, 2);
}

// Percentiles 2.5 and 97.5 of the medians of 1,000,000 resamples, by numpy.
TEST(Speedup, TheIntervalIsTheBootstrapOfTheMedian) {
  const Speedup even = of({0.87, 0.76, 0.54, 0.94, 0.79, 0.83});
  EXPECT_DOUBLE_EQ(even.median, 0.81);
  EXPECT_NEAR(even.interval->low, 0.65, 1e-12);
  EXPECT_NEAR(even.interval->high, 0.905, 1e-12);
  const Speedup odd = of({1.02, 1.11, 1.08, 1.31, 1.05, 1.12, 1.09, 1.2, 1.15});
  EXPECT_EQ(odd.median, 1.11);
  EXPECT_EQ(odd.interval->low, 1.05);
  EXPECT_EQ(odd.interval->high, 1.2);
  const Speedup two = of({1.3, 1.1});
  EXPECT_DOUBLE_EQ(two.median, 1.2);
  EXPECT_EQ(two.interval->low, 1.1);
  EXPECT_EQ(two.interval->high, 1.3);
}

// Of 1, 2, ..., 201: the median of n numbers lies between those of rank (n -+ 1.96 sqrt n) / 2.
TEST(Speedup, TheIntervalOfManyRoundsIsThatOfTheNormalDistribution) {
  std::vector<double> ratios;
  for (int i = 1; i <= 201; ++i) ratios.push_back(i);
  const Speedup s = of(ratios);
  EXPECT_EQ(s.median, 101);
  EXPECT_NEAR(s.interval->low, 101 - 13.9, 1.5);
  EXPECT_NEAR(s.interval->high, 101 + 13.9, 1.5);
}

TEST(Speedup, IsTheSameEveryTime) {
  const std::vector<double> ratios = {0.9, 1.2, 1.1, 0.7, 1.3, 1.05, 0.98};
  EXPECT_EQ(of(ratios).interval->low, of(ratios).interval->low);
  EXPECT_EQ(of(ratios).interval->high, of(ratios).interval->high);
}

TEST(Speedup, OneRoundHasNoInterval) {
  EXPECT_EQ(of({1.5}).interval, std::nullopt);
  EXPECT_EQ(of({1.5}).median, 1.5);
}

TEST(Judge, TheSameWithinFivePercent) {
  EXPECT_EQ(judge(speedup(1.0, 0.99, 1.01)), Verdict::kSame);
  EXPECT_EQ(judge(speedup(1.049, 1.01, 1.2)), Verdict::kSame);
  EXPECT_EQ(judge(speedup(0.951, 0.8, 1.04)), Verdict::kSame);
}

TEST(Judge, InconclusiveWhereEitherMayBeFaster) {
  EXPECT_EQ(judge(speedup(1.0, 0.9, 1.1)), Verdict::kInconclusive);
  EXPECT_EQ(judge(speedup(1.0, 0.9, 1.04)), Verdict::kSame);
  EXPECT_EQ(judge(speedup(1.0, 0.96, 1.1)), Verdict::kSame);
}

TEST(Judge, FasterWhereTheIntervalLeavesOutOne) {
  EXPECT_EQ(judge(speedup(1.06, 1.01, 1.2)), Verdict::kBFaster);
  EXPECT_EQ(judge(speedup(0.94, 0.8, 0.99)), Verdict::kAFaster);
  EXPECT_EQ(judge(speedup(2.0, 1.0, 3.0)), Verdict::kInconclusive);
  EXPECT_EQ(judge(speedup(1.06, 0.99, 1.2)), Verdict::kInconclusive);
  EXPECT_EQ(judge(speedup(0.5, 0.3, 1.01)), Verdict::kInconclusive);
}

TEST(Judge, OneRoundCallsNothingFaster) {
  EXPECT_EQ(judge(of({1.5})), Verdict::kInconclusive);
  EXPECT_EQ(judge(of({1.01})), Verdict::kSame);
}

}  // namespace
}  // namespace tessera::app
