// How much faster B is than A, and how sure that is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::app {

inline constexpr double kConfidence = 0.95;
inline constexpr int kResamples = 10'000;

// Medians that differ by less count as the same, as in the original.
inline constexpr double kSameWithin = 0.05;

// With fewer rounds even the range from the smallest ratio to the largest covers the true median
// less often than kConfidence: in n rounds all ratios lie on one side of it with probability
// 2^(1-n), which is above 5 % up to n = 5.
inline constexpr int kRoundsForConfidence = 6;

struct Interval {
  double low = 0;
  double high = 0;
};

struct Speedup {
  double median = 0;                 // of the ratios
  std::optional<Interval> interval;  // none for a single round
  std::vector<double> samples;       // B's rate over A's, round by round
};

// Rates of the same rounds, all above 0, at least one. The pairing takes out what slows down both
// runs of a round. The interval is the percentile bootstrap of the median: rounds are drawn with
// replacement kResamples times, always by the same random numbers.
Speedup speedup_of(std::span<const double> a, std::span<const double> b);

enum class Verdict { kSame, kAFaster, kBFaster, kInconclusive };

// The median is within kSameWithin of 1: the same, but inconclusive where the interval reaches
// beyond that on both sides, so that either may be the faster one. Beyond: the faster one, but
// inconclusive where the interval holds 1, or where there is none.
Verdict judge(const Speedup& speedup);

// "same", "a_faster", "b_faster", "inconclusive".
std::string_view to_string(Verdict verdict);

}  // namespace tessera::app
