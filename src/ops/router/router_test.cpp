#include "ops/router/router.h"

#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::near;
using testing::PaddedRows;

using Experts = std::vector<std::int32_t>;

struct Routed {
  Experts experts;
  std::vector<float> weights;
};

// All tokens of `logits`, with one more element behind each output that must stay as it is.
Routed run(const ConstRows& logits, const RouterParameters& parameters, bool reference = false) {
  const auto n = static_cast<std::size_t>(logits.rows * parameters.top_k);
  Routed routed{Experts(n + 1, -7), std::vector<float>(n + 1, -7.0f)};
  const auto experts = std::span(routed.experts).first(n);
  const auto weights = std::span(routed.weights).first(n);
  (reference ? route_reference : route)(logits, parameters, experts, weights);
  EXPECT_EQ(routed.experts.back(), -7);
  EXPECT_EQ(routed.weights.back(), -7.0f);
  routed.experts.pop_back();
  routed.weights.pop_back();
  return routed;
}

// One token whose scores are `probabilities`, which add up to 1.
Routed run_one(const std::vector<float>& probabilities, const RouterParameters& parameters) {
  std::vector<float> logits;
  for (float p : probabilities) logits.push_back(std::log(p) + 3.0f);
  PaddedRows rows(1, std::ssize(logits));
  rows.fill(logits);
  return run(rows.rows(), parameters);
}

TEST(Router, TakesTheLargestSoftmaxScoresInFallingOrder) {
  const auto [experts, weights] = run_one({0.1f, 0.4f, 0.2f, 0.3f}, {.top_k = 3});
  EXPECT_EQ(experts, (Experts{1, 3, 2}));
  EXPECT_TRUE(near(weights, std::vector<float>{0.4f, 0.3f, 0.2f}, 1e-6));
}

TEST(Router, OfEqualScoresTheLowerIndexComesFirst) {
  const auto [experts, weights] = run_one({0.1f, 0.3f, 0.3f, 0.3f}, {.top_k = 2});
  EXPECT_EQ(experts, (Experts{1, 2}));
}

TEST(Router, MultipliesByTheScaleWhereNotNormalised) {
  const auto [experts, weights] = run_one({0.5f, 0.25f, 0.25f}, {.top_k = 2, .scale = 16});
  EXPECT_TRUE(near(weights, std::vector<float>{8, 4}, 1e-5));
}

TEST(Router, NormalisedWeightsAddUpToOneWhateverTheScale) {
  const auto [experts, weights] =
      run_one({0.1f, 0.6f, 0.2f, 0.1f}, {.top_k = 2, .normalise = true, .scale = 16});
  EXPECT_EQ(experts, (Experts{1, 2}));
  EXPECT_TRUE(near(weights, std::vector<float>{0.75f, 0.25f}, 1e-6));
}

TEST(Router, ASingleWeightIsScaledAndNotNormalised) {
  const auto [experts, weights] =
      run_one({0.2f, 0.5f, 0.3f}, {.top_k = 1, .normalise = true, .scale = 3});
  EXPECT_EQ(experts, (Experts{1}));
  EXPECT_TRUE(near(weights, std::vector<float>{1.5f}, 1e-6));
}

RouterParameters grouped(std::int64_t top_k, std::int64_t n_groups, std::int64_t top_k_groups) {
  return {.top_k = top_k,
          .method = TopKMethod::kGroupLimitedGreedy,
          .n_groups = n_groups,
          .top_k_groups = top_k_groups};
}

TEST(Router, AGroupRanksByItsLargestScore) {
  // Groups {0, 1}, {2, 3}, {4, 5}: the middle one has the largest sum, the last the largest score.
  const auto [experts, weights] =
      run_one({0.05f, 0.05f, 0.25f, 0.25f, 0.3f, 0.1f}, grouped(2, 3, 1));
  EXPECT_EQ(experts, (Experts{4, 5}));
  EXPECT_TRUE(near(weights, std::vector<float>{0.3f, 0.1f}, 1e-6));
}

TEST(Router, SeveralGroupsStayInTheRunning) {
  const auto [experts, weights] =
      run_one({0.2f, 0.02f, 0.15f, 0.18f, 0.4f, 0.05f}, grouped(3, 3, 2));
  EXPECT_EQ(experts, (Experts{4, 0, 5}));
}

TEST(Router, OfEqualGroupsTheFirstStays) {
  const auto [experts, weights] = run_one({0.2f, 0.3f, 0.3f, 0.2f}, grouped(2, 2, 1));
  EXPECT_EQ(experts, (Experts{1, 0}));
}

TEST(Router, StaysInsideTheGroupsWhereScoresVanish) {
  // exp(-200) is 0 in fp32: in the kept group {2, 3} expert 3 scores as little as those outside it.
  PaddedRows logits(1, 4);
  logits.fill(std::vector<float>{-200, -200, 0, -200});
  EXPECT_EQ(run(logits.rows(), grouped(2, 2, 1)).experts, (Experts{2, 3}));
}

TEST(Router, LargeLogitsDoNotOverflow) {
  PaddedRows logits(1, 3);
  logits.fill(std::vector<float>{1000, 1000, -1000});
  const auto [experts, weights] = run(logits.rows(), {.top_k = 2});
  EXPECT_EQ(experts, (Experts{0, 1}));
  EXPECT_EQ(weights, (std::vector<float>{0.5f, 0.5f}));
}

TEST(Router, AllExpertsMayBeChosen) {
  const auto [experts, weights] = run_one({0.2f, 0.7f, 0.1f}, {.top_k = 3});
  EXPECT_EQ(experts, (Experts{1, 0, 2}));
}

TEST(Router, EqualsTheReferenceOnStridedRows) {
  std::mt19937 random(1);
  for (std::int64_t n_experts : {1, 8, 64, 160}) {
    PaddedRows logits(9, n_experts);
    logits.fill(random);
    const RouterParameters greedy{.top_k = std::min<std::int64_t>(n_experts, 6), .scale = 2.5f};
    std::vector<RouterParameters> all = {greedy};
    all.push_back(greedy);
    all.back().normalise = true;
    if (n_experts >= 8) all.push_back(grouped(6, 4, 3));
    for (const RouterParameters& parameters : all) {
      const auto native = run(logits.rows(), parameters);
      const auto reference = run(logits.rows(), parameters, true);
      EXPECT_EQ(native.experts, reference.experts) << n_experts << " experts";
      EXPECT_TRUE(near(native.weights, reference.weights, 1e-6)) << n_experts << " experts";
    }
  }
}

TEST(Router, NoTokensWriteNothing) {
  PaddedRows logits(0, 4);
  EXPECT_TRUE(run(logits.rows(), {.top_k = 2}).experts.empty());
}

}  // namespace
}  // namespace tessera::ops
