#include "ops/moe/expert_lists.h"

#include <algorithm>
#include <utility>

namespace tessera::ops {

void sort_by_expert(const std::int32_t* chosen, const float* weights, std::int64_t n_choices,
                    std::int64_t top_k, std::int64_t n_experts, std::int32_t* end,
                    ExpertLists& lists) {
  std::fill_n(end, n_experts, 0);
  for (std::int64_t i = 0; i < n_choices; ++i) ++end[chosen[i]];
  std::int32_t first = 0;
  lists.n_parts = 0;
  for (std::int64_t e = 0; e < n_experts; ++e) {
    const std::int32_t rows = std::exchange(end[e], first);
    if (rows > 0) lists.parts[lists.n_parts++] = {static_cast<std::int32_t>(e), first, rows};
    first += rows;
  }
  for (std::int64_t i = 0; i < n_choices; ++i) {
    const std::int32_t at = end[chosen[i]]++;
    lists.tokens[at] = static_cast<std::int32_t>(i / top_k);
    lists.weights[at] = weights[i];
  }
}

}  // namespace tessera::ops
