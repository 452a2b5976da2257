// Multi-head latent attention in expanded form over a latent cache, for many new tokens of one
// sequence: what ops/mla_attention gives in absorbed form, for less arithmetic where many queries
// look at the same tokens (DeepSeek-V2, arXiv:2405.04434, section 2.1).
//
// The cache holds one row per token for all heads: the normalised latent c and the rotated key
// k_pe. Keys and values of every head are made of it, [W_UK c, k_pe] and W_UV c, for a block of
// tokens at a time; then every query attends to the block, and the blocks' states are merged in
// order.
#pragma once

#include <cstdint>
#include <span>

#include "ops/executor.h"
#include "ops/linear/linear.h"
#include "ops/mla_attention/mla_attention.h"
#include "ops/rows.h"
#include "ops/visible_tokens.h"

namespace tessera::ops {

// How keys and values come from latents, by head; all of one layout.
struct Expansion {
  std::span<const PackedLinear> latent_to_key;    // [nope, latent] each
  std::span<const PackedLinear> latent_to_value;  // [v, latent] each
};

// Tokens that are expanded at a time, from a multiple of it on. A head's keys and values (0.16 MB
// in bf16 at V2's sizes) stay in the second-level cache while the queries pass, and those of all
// heads of V2-Lite (2.6 MB) in the third.
inline constexpr std::int64_t kExpandedBlockTokens = 256;

// query [rows, heads, nope + rope], of the last `rows` (1 or more) tokens that are visible: the
// last sees them all, each before it one less. out [rows, heads, v], not overlapping query. out(r,
// h) = sum_t softmax_t(scale * query(r, h) . key(t, h)) * value(t, h).
//
// A row's bits depend on the row and on the tokens that it sees alone, as long as the keys and
// values behind them are finite: not on the other rows or the number of threads. Rows of the cache
// beyond the visible tokens and pages not named are never read.
//
// Runs generated code (tile/attention, tile/product). With a bf16 cache on a CPU with a bf16 dot
// product, queries, keys, values and weights are rounded to bf16; else they are fp32. Latents are
// rounded as the layout of the expansion asks. Sums are fp32.
void expanded_attention(const ConstHeads& query, const LatentPages& cache,
                        const VisibleTokens& visible, const Expansion& w, float scale,
                        const Heads& out, Executor& executor);

// The same in double, with the packed weights' values.
void expanded_attention_reference(const ConstHeads& query, const LatentPages& cache,
                                  const VisibleTokens& visible, const Expansion& w, float scale,
                                  const Heads& out);

}  // namespace tessera::ops
