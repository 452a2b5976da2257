#include <algorithm>
#include <cmath>
#include <vector>

#include "base/convert.h"
#include "ops/mha_attention/mha_attention.h"

namespace tessera::ops {

namespace {

// Row `token` of rows of n values.
std::vector<float> row_of(const std::byte* rows, DType dtype, std::int64_t token, std::int64_t n) {
  std::vector<float> row(static_cast<std::size_t>(n));
  convert(rows + static_cast<std::size_t>(token * n) * size_in_bytes(dtype), dtype, row.data(),
          DType::kF32, row.size());
  return row;
}

double product(const float* a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

void mha_attention_reference(const ConstHeads& query, const ExpandedPages& cache,
                             std::span<const VisibleTokens> visible, float scale,
                             const Heads& out) {
  for (std::int64_t row = 0; row < query.rows; ++row) {
    const VisibleTokens& tokens = visible[static_cast<std::size_t>(row)];
    const auto page_of = [&](std::int64_t t) {
      return tokens.pages[static_cast<std::size_t>(t / cache.page_tokens)];
    };
    for (std::int64_t head = 0; head < query.heads; ++head) {
      const float* q = query.at(row, head);
      std::vector<double> scores;
      for (std::int64_t t = 0; t < tokens.length; ++t) {
        const std::int64_t at = t % cache.page_tokens;
        const auto key = row_of(cache.keys(page_of(t), head), cache.dtype, at, cache.nope_dim);
        const auto shared = row_of(cache.shared_keys(page_of(t)), cache.dtype, at, cache.rope_dim);
        scores.push_back(scale * (product(q, key) + product(q + cache.nope_dim, shared)));
      }
      const double largest = *std::ranges::max_element(scores);
      double normaliser = 0;
      std::vector<double> sum(static_cast<std::size_t>(cache.v_dim), 0.0);
      for (std::int64_t t = 0; t < tokens.length; ++t) {
        const double weight = std::exp(scores[static_cast<std::size_t>(t)] - largest);
        normaliser += weight;
        const auto value =
            row_of(cache.values(page_of(t), head), cache.dtype, t % cache.page_tokens, cache.v_dim);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * value[i];
      }
      for (std::size_t i = 0; i < sum.size(); ++i) {
        out.at(row, head)[i] = static_cast<float>(sum[i] / normaliser);
      }
    }
  }
}

}  // namespace tessera::ops
