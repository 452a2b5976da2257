#include <algorithm>
#include <cmath>
#include <vector>

#include "base/convert.h"
#include "ops/expanded_attention/expanded_attention.h"

namespace tessera::ops {

namespace {

std::vector<double> product(const PackedLinear& w, std::span<const float> x) {
  std::vector<double> weights(static_cast<std::size_t>(w.n() * w.k()));
  w.unpack(0, weights.data());
  std::vector<double> y(static_cast<std::size_t>(w.n()), 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    y[i / x.size()] += weights[i] * static_cast<double>(x[i % x.size()]);
  }
  return y;
}

// All tokens of one head, a vector each.
struct HeadTokens {
  std::vector<std::vector<double>> keys;
  std::vector<std::vector<double>> values;
};

HeadTokens expand(const LatentPages& cache, const VisibleTokens& visible, const PackedLinear& key,
                  const PackedLinear& value) {
  HeadTokens tokens;
  for (std::int64_t t = 0; t < visible.length; ++t) {
    const auto row_values = static_cast<std::size_t>(cache.row_values());
    std::vector<float> row(row_values);
    convert(cache.row(visible, t), cache.dtype, row.data(), DType::kF32, row_values);
    const auto latent = std::span(row).first(static_cast<std::size_t>(cache.latent_dim));
    std::vector<double>& k = tokens.keys.emplace_back(product(key, latent));
    k.insert(k.end(), row.begin() + cache.latent_dim, row.end());
    tokens.values.push_back(product(value, latent));
  }
  return tokens;
}

}  // namespace

void expanded_attention_reference(const ConstHeads& query, const LatentPages& cache,
                                  const VisibleTokens& visible, const Expansion& w, float scale,
                                  const Heads& out) {
  for (std::int64_t head = 0; head < query.heads; ++head) {
    const auto h = static_cast<std::size_t>(head);
    const HeadTokens tokens = expand(cache, visible, w.latent_to_key[h], w.latent_to_value[h]);
    for (std::int64_t row = 0; row < query.rows; ++row) {
      const auto length = static_cast<std::size_t>(visible.length - query.rows + row + 1);
      std::vector<double> scores(length, 0.0);
      for (std::size_t t = 0; t < length; ++t) {
        for (std::size_t i = 0; i < tokens.keys[t].size(); ++i) {
          scores[t] += static_cast<double>(query.at(row, head)[i]) * tokens.keys[t][i];
        }
        scores[t] *= scale;
      }
      const double largest = std::ranges::max(scores);
      double sum = 0;
      std::vector<double> values(tokens.values.front().size(), 0.0);
      for (std::size_t t = 0; t < length; ++t) {
        const double weight = std::exp(scores[t] - largest);
        sum += weight;
        for (std::size_t i = 0; i < values.size(); ++i) values[i] += weight * tokens.values[t][i];
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        out.at(row, head)[i] = static_cast<float>(values[i] / sum);
      }
    }
  }
}

}  // namespace tessera::ops
