#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/half.h"
#include "base/multiversion.h"
#include "ops/dot.h"
#include "ops/mla_attention/mla_attention.h"

namespace tessera::ops {

namespace {

template <typename T>
[[gnu::always_inline]] inline void score_rows(const float* query, const T* rows,
                                              std::int64_t n_rows, std::int64_t row_values,
                                              float scale, float* scores) {
  for (std::int64_t t = 0; t < n_rows; ++t) {
    scores[t] = scale * dot(query, rows + t * row_values, row_values);
  }
}

template <typename T>
[[gnu::always_inline]] inline void add_rows(const float* weights, const T* rows,
                                            std::int64_t n_rows, std::int64_t row_values,
                                            std::int64_t latent_dim, float* out) {
  for (std::int64_t t = 0; t < n_rows; ++t) {
    const float weight = weights[t];
    const T* row = rows + t * row_values;
    for (std::int64_t i = 0; i < latent_dim; ++i) out[i] += weight * to_float(row[i]);
  }
}

TESSERA_MULTIVERSION void score_f32(const float* query, const float* rows, std::int64_t n_rows,
                                    std::int64_t row_values, float scale, float* scores) {
  score_rows(query, rows, n_rows, row_values, scale, scores);
}
TESSERA_MULTIVERSION void score_bf16(const float* query, const bf16* rows, std::int64_t n_rows,
                                     std::int64_t row_values, float scale, float* scores) {
  score_rows(query, rows, n_rows, row_values, scale, scores);
}
TESSERA_MULTIVERSION void add_f32(const float* weights, const float* rows, std::int64_t n_rows,
                                  std::int64_t row_values, std::int64_t latent_dim, float* out) {
  add_rows(weights, rows, n_rows, row_values, latent_dim, out);
}
TESSERA_MULTIVERSION void add_bf16(const float* weights, const bf16* rows, std::int64_t n_rows,
                                   std::int64_t row_values, std::int64_t latent_dim, float* out) {
  add_rows(weights, rows, n_rows, row_values, latent_dim, out);
}

// visit(first token, number of tokens, rows of a page) over all pages of a sequence.
template <typename Visit>
void for_each_page(const LatentPages& cache, const VisibleTokens& visible, Visit&& visit) {
  for (std::int64_t first = 0; first < visible.length; first += cache.page_tokens) {
    const std::int64_t n = std::min(cache.page_tokens, visible.length - first);
    visit(first, n, cache.page(visible.pages[static_cast<std::size_t>(first / cache.page_tokens)]));
  }
}

// Scores to probabilities, all of one query at once: the largest is known before anything is
// summed, so no rescaling is needed.
void softmax(float* scores, std::int64_t n) {
  const float largest = *std::max_element(scores, scores + n);
  float sum = 0;
  for (std::int64_t t = 0; t < n; ++t) {
    scores[t] = std::exp(scores[t] - largest);
    sum += scores[t];
  }
  for (std::int64_t t = 0; t < n; ++t) scores[t] /= sum;
}

void attend(const float* query, const LatentPages& cache, const VisibleTokens& visible, float scale,
            float* out, Worker& worker) {
  float* scores = worker.scratch<float>(0, visible.length);
  const bool narrow = cache.dtype == DType::kBF16;
  const std::int64_t row_values = cache.row_values();
  for_each_page(cache, visible, [&](std::int64_t first, std::int64_t n, const std::byte* rows) {
    if (narrow) {
      score_bf16(query, reinterpret_cast<const bf16*>(rows), n, row_values, scale, scores + first);
    } else {
      score_f32(query, reinterpret_cast<const float*>(rows), n, row_values, scale, scores + first);
    }
  });
  softmax(scores, visible.length);
  std::fill_n(out, cache.latent_dim, 0.0f);
  for_each_page(cache, visible, [&](std::int64_t first, std::int64_t n, const std::byte* rows) {
    if (narrow) {
      add_bf16(scores + first, reinterpret_cast<const bf16*>(rows), n, row_values, cache.latent_dim,
               out);
    } else {
      add_f32(scores + first, reinterpret_cast<const float*>(rows), n, row_values, cache.latent_dim,
              out);
    }
  });
}

}  // namespace

void mla_attention_native(const ConstHeads& query, const LatentPages& cache,
                          std::span<const VisibleTokens> visible, float scale, const Heads& out,
                          Executor& executor) {
  assert(cache.dtype == DType::kF32 || cache.dtype == DType::kBF16);
  std::int64_t work = 0;
  for (const VisibleTokens& tokens : visible) {
    work += tokens.length * query.heads * (cache.row_values() + cache.latent_dim);
  }
  executor.parallel_for(query.rows * query.heads, work, [&](std::int64_t task, Worker& worker) {
    const std::int64_t row = task / query.heads;
    const std::int64_t head = task % query.heads;
    attend(query.at(row, head), cache, visible[static_cast<std::size_t>(row)], scale,
           out.at(row, head), worker);
  });
}

}  // namespace tessera::ops
