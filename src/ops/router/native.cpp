#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/router/router.h"

namespace tessera::ops {

namespace {

// Indices of the k largest of n scores, largest first, the lower index first among equals.
std::vector<std::int32_t> top_k_indices(const std::vector<float>& scores, std::int64_t k) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float score_a = scores[static_cast<std::size_t>(a)];
                      const float score_b = scores[static_cast<std::size_t>(b)];
                      return score_a != score_b ? score_a > score_b : a < b;
                    });
  order.resize(static_cast<std::size_t>(k));
  return order;
}

// Sets to -1 the scores outside the best groups, as a group's largest score ranks it: below every
// score inside, which may be 0.
void keep_best_groups(std::vector<float>& scores, const RouterParameters& p) {
  const std::size_t group_size = scores.size() / static_cast<std::size_t>(p.n_groups);
  std::vector<float> best(static_cast<std::size_t>(p.n_groups));
  for (std::size_t g = 0; g < best.size(); ++g) {
    best[g] = *std::max_element(scores.begin() + static_cast<std::ptrdiff_t>(g * group_size),
                                scores.begin() + static_cast<std::ptrdiff_t>((g + 1) * group_size));
  }
  std::vector<bool> kept(best.size(), false);
  for (std::int32_t g : top_k_indices(best, p.top_k_groups))
    kept[static_cast<std::size_t>(g)] = true;
  for (std::size_t e = 0; e < scores.size(); ++e) {
    if (!kept[e / group_size]) scores[e] = -1;
  }
}

}  // namespace

std::string_view to_string(TopKMethod method) {
  return method == TopKMethod::kGreedy ? "greedy" : "group_limited_greedy";
}

void route(const ConstRows& logits, const RouterParameters& p, std::span<std::int32_t> experts,
           std::span<float> weights) {
  std::vector<float> scores(static_cast<std::size_t>(logits.columns));
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    const auto token = logits.row(row);
    const float largest = *std::max_element(token.begin(), token.end());
    float sum = 0;
    for (std::size_t e = 0; e < token.size(); ++e) {
      scores[e] = std::exp(token[e] - largest);
      sum += scores[e];
    }
    for (float& score : scores) score /= sum;
    if (p.method == TopKMethod::kGroupLimitedGreedy) keep_best_groups(scores, p);

    const std::vector<std::int32_t> chosen = top_k_indices(scores, p.top_k);
    float chosen_sum = 0;
    for (std::int32_t e : chosen) chosen_sum += scores[static_cast<std::size_t>(e)];
    // A single weight is not normalised; the small addend is DeepSeek's own guard.
    const bool normalise = p.normalise && p.top_k > 1;
    const float factor = normalise ? 1 / (chosen_sum + 1e-20f) : p.scale;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(row * p.top_k) + i;
      experts[at] = chosen[i];
      weights[at] = scores[static_cast<std::size_t>(chosen[i])] * factor;
    }
  }
}

}  // namespace tessera::ops
