#include <cmath>
#include <vector>

#include "base/convert.h"
#include "ops/mla_attention/mla_attention.h"

namespace tessera::ops {

void mla_attention_reference(const ConstHeads& query, const LatentPages& cache,
                             std::span<const VisibleTokens> visible, float scale,
                             const Heads& out) {
  const auto row_values = static_cast<std::size_t>(cache.row_values());
  const auto latent_dim = static_cast<std::size_t>(cache.latent_dim);
  for (std::int64_t row = 0; row < query.rows; ++row) {
    const VisibleTokens& tokens = visible[static_cast<std::size_t>(row)];
    for (std::int64_t head = 0; head < query.heads; ++head) {
      double normaliser = 0;
      std::vector<double> sum(latent_dim, 0.0);
      // Two passes: the largest score first, then the weighted sum.
      double largest = -INFINITY;
      for (bool second_pass : {false, true}) {
        for (std::int64_t t = 0; t < tokens.length; ++t) {
          std::vector<float> key(row_values);
          convert(cache.row(tokens, t), cache.dtype, key.data(), DType::kF32, row_values);
          double score = 0;
          for (std::size_t i = 0; i < row_values; ++i) {
            score += static_cast<double>(query.at(row, head)[i]) * key[i];
          }
          score *= scale;
          if (!second_pass) {
            largest = std::max(largest, score);
            continue;
          }
          const double weight = std::exp(score - largest);
          normaliser += weight;
          for (std::size_t i = 0; i < latent_dim; ++i) sum[i] += weight * key[i];
        }
      }
      for (std::size_t i = 0; i < latent_dim; ++i) {
        out.at(row, head)[i] = static_cast<float>(sum[i] / normaliser);
      }
    }
  }
}

}  // namespace tessera::ops
