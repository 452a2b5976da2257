#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/router/router.h"

namespace tessera::ops {

namespace {

// How many of the scores stand before score i: those that are larger, and equal ones of lower
// index.
std::int64_t rank(const std::vector<double>& scores, std::size_t i) {
  std::int64_t before = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    before += scores[j] > scores[i] || (scores[j] == scores[i] && j < i);
  }
  return before;
}

std::vector<double> softmax(std::span<const float> logits) {
  double sum = 0;
  std::vector<double> scores;
  const double largest = *std::ranges::max_element(logits);
  for (float logit : logits) sum += std::exp(logit - largest);
  for (float logit : logits) scores.push_back(std::exp(logit - largest) / sum);
  return scores;
}

// The experts' scores for the choice: a score below all others where the expert's group is not
// kept.
std::vector<double> eligible(std::vector<double> scores, const RouterParameters& p) {
  if (p.method == TopKMethod::kGreedy) return scores;
  const std::size_t group_size = scores.size() / static_cast<std::size_t>(p.n_groups);
  std::vector<double> best(static_cast<std::size_t>(p.n_groups), 0.0);
  for (std::size_t e = 0; e < scores.size(); ++e) {
    best[e / group_size] = std::max(best[e / group_size], scores[e]);
  }
  for (std::size_t e = 0; e < scores.size(); ++e) {
    if (rank(best, e / group_size) >= p.top_k_groups) scores[e] = -1;
  }
  return scores;
}

}  // namespace

void route_reference(const ConstRows& logits, const RouterParameters& p,
                     std::span<std::int32_t> experts, std::span<float> weights) {
  for (std::int64_t token = 0; token < logits.rows; ++token) {
    const auto first = static_cast<std::size_t>(token * p.top_k);
    const std::vector<double> scores = softmax(logits.row(token));
    const std::vector<double> candidates = eligible(scores, p);
    double sum = 0;
    for (std::size_t e = 0; e < scores.size(); ++e) {
      const std::int64_t place = rank(candidates, e);
      if (place >= p.top_k) continue;
      experts[first + static_cast<std::size_t>(place)] = static_cast<std::int32_t>(e);
      sum += scores[e];
    }
    for (std::size_t i = first; i < first + static_cast<std::size_t>(p.top_k); ++i) {
      const double score = scores[static_cast<std::size_t>(experts[i])];
      const double factor = p.normalise && p.top_k > 1 ? 1 / (sum + 1e-20) : p.scale;
      weights[i] = static_cast<float>(score * factor);
    }
  }
}

}  // namespace tessera::ops
