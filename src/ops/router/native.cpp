#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/router/router.h"

namespace tessera::ops {

namespace {

// The indices of the k largest of n scores come first in `order`, largest first, the lower index
// first among equals.
void take_top_k(const float* scores, std::int64_t n, std::int64_t k, std::int32_t* order) {
  std::iota(order, order + n, 0);
  std::partial_sort(order, order + k, order + n, [&](std::int32_t a, std::int32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
}

// Sets to -1 the scores outside the best groups, as a group's largest score ranks it: below every
// score inside, which may be 0.
void keep_best_groups(const RouterScratch& scratch, std::int64_t n, const RouterParameters& p) {
  float* scores = scratch.scores;
  const std::int64_t group_size = n / p.n_groups;
  for (std::int64_t g = 0; g < p.n_groups; ++g) {
    scratch.best[g] = *std::max_element(scores + g * group_size, scores + (g + 1) * group_size);
  }
  take_top_k(scratch.best, p.n_groups, p.top_k_groups, scratch.order);
  const std::int32_t* kept = scratch.order;
  const std::int32_t* kept_end = kept + p.top_k_groups;
  for (std::int64_t e = 0; e < n; ++e) {
    if (std::find(kept, kept_end, e / group_size) == kept_end) scores[e] = -1;
  }
}

}  // namespace

std::string_view to_string(TopKMethod method) {
  return method == TopKMethod::kGreedy ? "greedy" : "group_limited_greedy";
}

void route_token(std::span<const float> logits, const RouterParameters& p,
                 const RouterScratch& scratch, std::int32_t* experts, float* weights) {
  const std::int64_t n = std::ssize(logits);
  float* scores = scratch.scores;
  const float largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (std::int64_t e = 0; e < n; ++e) {
    scores[e] = std::exp(logits[static_cast<std::size_t>(e)] - largest);
    sum += scores[e];
  }
  for (std::int64_t e = 0; e < n; ++e) scores[e] /= sum;
  if (p.method == TopKMethod::kGroupLimitedGreedy) keep_best_groups(scratch, n, p);

  take_top_k(scores, n, p.top_k, scratch.order);
  float chosen_sum = 0;
  for (std::int64_t i = 0; i < p.top_k; ++i) chosen_sum += scores[scratch.order[i]];
  // A single weight is not normalised; the small addend is DeepSeek's own guard.
  const bool normalise = p.normalise && p.top_k > 1;
  const float factor = normalise ? 1 / (chosen_sum + 1e-20f) : p.scale;
  for (std::int64_t i = 0; i < p.top_k; ++i) {
    experts[i] = scratch.order[i];
    weights[i] = scores[scratch.order[i]] * factor;
  }
}

void route(const ConstRows& logits, const RouterParameters& p, std::span<std::int32_t> experts,
           std::span<float> weights) {
  const auto n = static_cast<std::size_t>(logits.columns);
  std::vector<float> scores(n);
  std::vector<float> best(n);
  std::vector<std::int32_t> order(n);
  const RouterScratch scratch{scores.data(), best.data(), order.data()};
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    const auto at = static_cast<std::size_t>(row * p.top_k);
    route_token(logits.row(row), p, scratch, &experts[at], &weights[at]);
  }
}

}  // namespace tessera::ops
