// Multi-head latent attention in absorbed form (DeepSeek-V2, arXiv:2405.04434, section 2.1).
//
// The cache holds one row per token for all heads: the normalised latent c and the rotated key
// k_pe. With W_UK absorbed into the query and W_UV applied afterwards, a head's score for a cached
// token is the inner product of its query [latent + rope] with that row, and its output is the
// weighted sum of the latents.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <tessera/dtype.h>

#include "ops/executor.h"
#include "ops/rows.h"
#include "ops/visible_tokens.h"

namespace tessera::ops {

// One layer of a paged latent cache. Row t of a page: latent_dim values, then rope_dim.
struct LatentPages {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;  // fp32 or bf16
  std::int64_t page_tokens = 0;
  std::int64_t latent_dim = 0;
  std::int64_t rope_dim = 0;

  std::int64_t row_values() const { return latent_dim + rope_dim; }
  // The rows [page_tokens, row_values()] of a page.
  const std::byte* page(std::int32_t index) const {
    return data +
           static_cast<std::size_t>(index * page_tokens * row_values()) * size_in_bytes(dtype);
  }
  // A token's [row_values()], counted from the beginning of its sequence.
  const std::byte* row(const VisibleTokens& tokens, std::int64_t token) const {
    return page(tokens.pages[static_cast<std::size_t>(token / page_tokens)]) +
           static_cast<std::size_t>(token % page_tokens * row_values()) * size_in_bytes(dtype);
  }
};

// query [rows, heads, latent + rope]; visible [rows]; out [rows, heads, latent], not overlapping
// query. out(r, h) = sum_t softmax_t(scale * query(r, h) . row(t)) * latent(t). A row's result
// depends on that row and its cache alone: not on the other rows or the number of threads. Rows
// beyond `length` and pages not named are never read.
//
// Runs generated code (tile/attention), or the native implementation where there is none. With a
// bf16 cache on a CPU with a bf16 dot product, queries and weights are rounded to bf16; sums are
// fp32.
void mla_attention(const ConstHeads& query, const LatentPages& cache,
                   std::span<const VisibleTokens> visible, float scale, const Heads& out,
                   Executor& executor);

// Why attention to a cache cannot be generated: a clause, or empty.
std::string_view why_not_generated(const LatentPages& cache);

// The same in plain C++, in fp32 whatever the cache: any cache, at a tenth of the speed.
void mla_attention_native(const ConstHeads& query, const LatentPages& cache,
                          std::span<const VisibleTokens> visible, float scale, const Heads& out,
                          Executor& executor);

// The same in double.
void mla_attention_reference(const ConstHeads& query, const LatentPages& cache,
                             std::span<const VisibleTokens> visible, float scale, const Heads& out);

}  // namespace tessera::ops
