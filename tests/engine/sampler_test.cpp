#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tessera/error.h>

namespace tessera {

// How GoogleTest prints the options of a failing test.
static void PrintTo(const SamplingOptions& o, std::ostream* out) {
  *out << "temperature " << o.temperature << ", top_k " << o.top_k << ", top_p " << o.top_p
       << ", min_p " << o.min_p << ", repetition_penalty " << o.repetition_penalty;
}

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

using Tokens = std::vector<std::int32_t>;

// ---- The rules once more, plainly: everything sorted, everything in double.

struct Choice {
  std::int32_t token;
  double probability;
};

void normalise(std::vector<Choice>& choices) {
  double sum = 0;
  for (const Choice& c : choices) sum += c.probability;
  for (Choice& c : choices) c.probability /= sum;
}

// What may be drawn, likeliest first, the lower id first among equals.
std::vector<Choice> distribution(const std::vector<float>& logits, const Tokens& seen,
                                 const SamplingOptions& o) {
  std::vector<double> x(logits.begin(), logits.end());
  for (std::int32_t token : std::set<std::int32_t>(seen.begin(), seen.end())) {
    double& logit = x[static_cast<std::size_t>(token)];
    logit = logit > 0 ? logit / o.repetition_penalty : logit * o.repetition_penalty;
  }
  const double largest = *std::ranges::max_element(x);
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < x.size(); ++i) {
    choices.push_back({static_cast<std::int32_t>(i), std::exp((x[i] - largest) / o.temperature)});
  }
  normalise(choices);
  std::ranges::sort(choices, [](const Choice& a, const Choice& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
  });
  if (o.top_k > 0 && static_cast<std::size_t>(o.top_k) < choices.size()) {
    choices.resize(static_cast<std::size_t>(o.top_k));
    normalise(choices);
  }
  if (o.top_p < 1) {
    std::size_t kept = 0;
    for (double reached = 0; kept < choices.size() && reached < o.top_p; ++kept) {
      reached += choices[kept].probability;
    }
    choices.resize(kept);
    normalise(choices);
  }
  const double bound = o.min_p * choices.front().probability;
  std::erase_if(choices, [&](const Choice& c) { return c.probability < bound; });
  normalise(choices);
  return choices;
}

// Inverse transform: the first choice at which the sum of probabilities passes u. Where no filter
// needs them sorted, tokens stand in the order of their ids.
std::int32_t plain_pick(std::vector<Choice> choices, bool sorted, double u) {
  if (!sorted) std::ranges::sort(choices, {}, &Choice::token);
  double sum = 0;
  for (const Choice& c : choices) {
    sum += c.probability;
    if (u < sum) return c.token;
  }
  return choices.back().token;
}

double first_uniform(std::uint64_t seed) {
  return static_cast<double>(std::mt19937_64(seed)() >> 11) * 0x1p-53;
}

std::vector<float> random_logits(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

std::int32_t pick(const std::vector<float>& logits, SamplingOptions options,
                  const Tokens& seen = {}) {
  return Sampler(options).pick(logits, seen);
}

// ---- Draws

class SamplerFilters : public ::testing::TestWithParam<SamplingOptions> {};

TEST_P(SamplerFilters, PickWhatThePlainRulesPick) {
  const Tokens seen = {3, 17, 17, 40, 5};
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SamplingOptions o = GetParam();
    o.seed = seed;
    const auto logits = random_logits(50, seed % 20);
    const bool sorted = o.top_p < 1 || (o.top_k > 0 && o.top_k < 50);
    ASSERT_EQ(pick(logits, o, seen),
              plain_pick(distribution(logits, seen, o), sorted, first_uniform(seed)))
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SamplerFilters,
    ::testing::Values(SamplingOptions{.temperature = 1}, SamplingOptions{.temperature = 0.3},
                      SamplingOptions{.temperature = 5}, SamplingOptions{.temperature = 1e-300},
                      SamplingOptions{.temperature = 1, .top_k = 1},
                      SamplingOptions{.temperature = 1, .top_k = 7},
                      SamplingOptions{.temperature = 1, .top_k = 49},
                      SamplingOptions{.temperature = 1, .top_k = 50},
                      SamplingOptions{.temperature = 1, .top_k = 1000},
                      SamplingOptions{.temperature = 1, .top_p = 0.5},
                      SamplingOptions{.temperature = 1, .top_p = 0.95},
                      SamplingOptions{.temperature = 1, .top_p = 1e-300},
                      SamplingOptions{.temperature = 1, .min_p = 0.1},
                      SamplingOptions{.temperature = 1, .min_p = 1},
                      SamplingOptions{.temperature = 1, .repetition_penalty = 1.5},
                      SamplingOptions{.temperature = 1, .repetition_penalty = 0.5},
                      SamplingOptions{.temperature = 1, .top_k = 12, .top_p = 0.7},
                      SamplingOptions{.temperature = 1, .top_k = 12, .min_p = 0.2},
                      SamplingOptions{.temperature = 1, .top_p = 0.8, .min_p = 0.2},
                      SamplingOptions{.temperature = 0.7,
                                      .top_k = 20,
                                      .top_p = 0.9,
                                      .min_p = 0.05,
                                      .repetition_penalty = 1.2}));

TEST(Sampler, FrequenciesFollowTheProbabilities) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  SamplingOptions o;
  o.temperature = 1;
  Sampler sampler(o);
  std::vector<int> count(3);
  constexpr int kDraws = 80000;
  for (int i = 0; i < kDraws; ++i) ++count[static_cast<std::size_t>(sampler.pick(logits, {}))];
  // Five standard deviations of the rarest are 0.006.
  EXPECT_NEAR(count[0] / double{kDraws}, 0.125, 0.01);
  EXPECT_NEAR(count[1] / double{kDraws}, 0.25, 0.01);
  EXPECT_NEAR(count[2] / double{kDraws}, 0.625, 0.01);
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  const auto logits = random_logits(1000, 1);
  const auto tokens = [&](std::uint64_t seed) {
    SamplingOptions o;
    o.temperature = 2;
    o.seed = seed;
    Sampler sampler(o);
    Tokens drawn;
    for (int i = 0; i < 50; ++i) drawn.push_back(sampler.pick(logits, {}));
    return drawn;
  };
  EXPECT_EQ(tokens(7), tokens(7));
  EXPECT_NE(tokens(7), tokens(8));
}

TEST(Sampler, TinyTopPLeavesTheLikeliest) {
  const std::vector<float> logits = {1, 5, 5, 2};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (double top_p : {1e-12, std::numeric_limits<double>::denorm_min()}) {
      EXPECT_EQ(pick(logits, {.temperature = 1, .top_p = top_p, .seed = seed}), 1);
    }
  }
}

TEST(Sampler, TopKOfEqualTokensKeepsTheLowestIds) {
  const std::vector<float> logits(10, 1.0f);
  std::set<std::int32_t> drawn;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    drawn.insert(pick(logits, {.temperature = 1, .top_k = 3, .seed = seed}));
  }
  EXPECT_EQ(drawn, (std::set<std::int32_t>{0, 1, 2}));
}

TEST(Sampler, MinPOfOneKeepsAllThatTieForLikeliest) {
  const std::vector<float> logits = {2, 1.999f, 2, 0};
  std::set<std::int32_t> drawn;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    drawn.insert(pick(logits, {.temperature = 1, .min_p = 1, .seed = seed}));
  }
  EXPECT_EQ(drawn, (std::set<std::int32_t>{0, 2}));
}

TEST(Sampler, AVocabularyOfOneToken) {
  for (const SamplingOptions& o :
       {SamplingOptions{.temperature = 0}, SamplingOptions{.temperature = 1},
        SamplingOptions{.temperature = 1, .top_k = 5, .top_p = 0.1, .min_p = 1}}) {
    EXPECT_EQ(pick({-3.0f}, o, {0}), 0);
  }
}

// ---- Greedy

TEST(SamplerGreedy, TakesTheLowestIdOfEquals) {
  EXPECT_EQ(pick({1, 3, 3, 2, 3}, {.temperature = 0}), 1);
  EXPECT_EQ(pick({-0.0f, 0.0f}, {.temperature = 0}), 0);
}

TEST(SamplerGreedy, IgnoresSeedAndFilters) {
  const auto logits = random_logits(100, 3);
  const auto best = std::ranges::max_element(logits) - logits.begin();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(pick(logits, {.temperature = 0, .top_k = 50, .top_p = 0.9, .seed = seed}), best);
  }
}

// ---- Repetition penalty

TEST(SamplerPenalty, DividesPositiveLogitsAndMultipliesNegativeOnes) {
  const SamplingOptions o{.temperature = 0, .repetition_penalty = 2};
  EXPECT_EQ(pick({3, 2}, o, {0}), 1);       // 1.5 against 2
  EXPECT_EQ(pick({-1, -1.5f}, o, {0}), 1);  // -2 against -1.5
  EXPECT_EQ(pick({5, 2}, o, {0}), 0);       // 2.5 against 2
}

TEST(SamplerPenalty, CountsATokenOnceHoweverOftenItWasSeen) {
  EXPECT_EQ(pick({5, 2}, {.temperature = 0, .repetition_penalty = 2}, {0, 0, 0, 0}), 0);
}

TEST(SamplerPenalty, StaysAPenaltyAtTheEndsOfItsRange) {
  const Tokens seen = {1, 2};
  for (double temperature : {0.0, 1.0}) {
    // A huge one rules out what was seen; a logit of 0 stays.
    const SamplingOptions huge{.temperature = temperature, .repetition_penalty = 1e300};
    EXPECT_EQ(pick({-1, -1, -2}, huge, seen), 0);
    EXPECT_EQ(pick({-1000, 0, -5}, huge, seen), 1);
    // A tiny one forces a token that was seen.
    const SamplingOptions tiny{.temperature = temperature, .repetition_penalty = 1e-300};
    EXPECT_EQ(pick({2, 1, -1000}, tiny, seen), 1);
  }
}

// ---- Errors

std::string sentence_of(const SamplingOptions& options) {
  try {
    validate(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(SamplingOptionsRange, Temperature) {
  EXPECT_EQ(sentence_of({.temperature = 0}), "accepted");
  EXPECT_EQ(sentence_of({.temperature = -0.5}), "temperature must be a number from 0 up, not -0.5");
  EXPECT_EQ(sentence_of({.temperature = kNan}), "temperature must be a number from 0 up, not nan");
  EXPECT_EQ(sentence_of({.temperature = kInf}), "temperature must be a number from 0 up, not inf");
}

TEST(SamplingOptionsRange, TopK) {
  EXPECT_EQ(sentence_of({.top_k = std::numeric_limits<std::int64_t>::max()}), "accepted");
  EXPECT_EQ(sentence_of({.top_k = -1}), "top_k must be 0 (all tokens) or more, not -1");
}

TEST(SamplingOptionsRange, TopP) {
  EXPECT_EQ(sentence_of({.top_p = 1e-300}), "accepted");
  EXPECT_EQ(sentence_of({.top_p = 0}), "top_p must be above 0 and at most 1, not 0");
  EXPECT_EQ(sentence_of({.top_p = -0.1}), "top_p must be above 0 and at most 1, not -0.1");
  EXPECT_EQ(sentence_of({.top_p = 1.5}), "top_p must be above 0 and at most 1, not 1.5");
  EXPECT_EQ(sentence_of({.top_p = kNan}), "top_p must be above 0 and at most 1, not nan");
  EXPECT_EQ(sentence_of({.top_p = kInf}), "top_p must be above 0 and at most 1, not inf");
}

TEST(SamplingOptionsRange, MinP) {
  EXPECT_EQ(sentence_of({.min_p = 0}), "accepted");
  EXPECT_EQ(sentence_of({.min_p = 1}), "accepted");
  EXPECT_EQ(sentence_of({.min_p = -0.1}), "min_p must be from 0 to 1, not -0.1");
  EXPECT_EQ(sentence_of({.min_p = 1.5}), "min_p must be from 0 to 1, not 1.5");
  EXPECT_EQ(sentence_of({.min_p = kNan}), "min_p must be from 0 to 1, not nan");
  EXPECT_EQ(sentence_of({.min_p = -kInf}), "min_p must be from 0 to 1, not -inf");
}

TEST(SamplingOptionsRange, RepetitionPenalty) {
  EXPECT_EQ(sentence_of({.repetition_penalty = 0.1}), "accepted");
  EXPECT_EQ(sentence_of({.repetition_penalty = 0}),
            "repetition_penalty must be a number above 0, not 0");
  EXPECT_EQ(sentence_of({.repetition_penalty = -1}),
            "repetition_penalty must be a number above 0, not -1");
  EXPECT_EQ(sentence_of({.repetition_penalty = kNan}),
            "repetition_penalty must be a number above 0, not nan");
  EXPECT_EQ(sentence_of({.repetition_penalty = kInf}),
            "repetition_penalty must be a number above 0, not inf");
}

TEST(SamplingOptionsRange, NamesTheFirstThatIsWrong) {
  EXPECT_EQ(sentence_of({.top_k = -1, .top_p = 2, .repetition_penalty = 0}),
            "top_k must be 0 (all tokens) or more, not -1");
}

TEST(SamplingOptionsRange, ASamplerChecksItsOptions) {
  EXPECT_THROW(Sampler({.temperature = -1}), Error);
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  for (double temperature : {0.0, 1.0}) {
    for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity()}) {
      try {
        pick({1, bad, 2}, {.temperature = temperature});
        FAIL() << "accepted " << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kNotFinite);
        EXPECT_EQ(error.what(), std::string("the logit of token 1 is ") +
                                    (std::isnan(bad) ? "NaN" : "infinite") +
                                    ": the weights are damaged; check them or download them again");
      }
    }
  }
}

TEST(RequireFinite, AdvisesFp32OnlyWhereItIsNotInUse) {
  const std::vector<float> logits = {0, 1, std::nanf("")};
  const auto sentence = [&](WeightFormat weights) -> std::string {
    try {
      require_finite(logits, weights, " at position 4");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(sentence(WeightFormat::kBF16),
            "the logit of token 2 at position 4 is NaN: the weights are damaged or overflow; try "
            "--dtype fp32");
  EXPECT_EQ(sentence(WeightFormat::kF32),
            "the logit of token 2 at position 4 is NaN: the weights are damaged; check them or "
            "download them again");
}

}  // namespace
}  // namespace tessera
