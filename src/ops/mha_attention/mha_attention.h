// Multi-head latent attention in expanded form: attention over keys and values of every head, as
// the KV prolog expands them (DeepSeek-V2, arXiv:2405.04434, section 2.1).
//
// The cache holds, per token, an unrotated key and a value for each head, and one rotated key that
// all heads share. It gives what ops/mla_attention gives, for 2 to 9 times the memory, without
// products into and out of the latent space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tessera/dtype.h>

#include "ops/executor.h"
#include "ops/recorded_rows.h"
#include "ops/rows.h"
#include "ops/visible_tokens.h"

namespace tessera::ops {

// One layer of a paged cache of expanded keys and values. All of one head of one page is
// contiguous.
struct ExpandedPages {
  const std::byte* k_nope = nullptr;  // [pages, heads, page_tokens, nope]
  const std::byte* value = nullptr;   // [pages, heads, page_tokens, v]
  const std::byte* k_pe = nullptr;    // [pages, page_tokens, rope]
  DType dtype = DType::kF32;          // fp32 or bf16
  std::int64_t page_tokens = 0;
  std::int64_t heads = 0;
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t v_dim = 0;

  const std::byte* keys(std::int32_t page, std::int64_t head) const {
    return k_nope + at((page * heads + head) * page_tokens * nope_dim);
  }
  const std::byte* values(std::int32_t page, std::int64_t head) const {
    return value + at((page * heads + head) * page_tokens * v_dim);
  }
  const std::byte* shared_keys(std::int32_t page) const {
    return k_pe + at(page * page_tokens * rope_dim);
  }

 private:
  std::size_t at(std::int64_t element) const {
    return static_cast<std::size_t>(element) * size_in_bytes(dtype);
  }
};

// query [rows, heads, nope + rope]; visible [rows]; out [rows, heads, v], not overlapping query.
// out(r, h) = sum_t softmax_t(scale * query(r, h) . [k_nope(t, h), k_pe(t)]) * value(t, h).
// A row's result depends on that row and its cache alone. Tokens beyond `length` and pages not
// named are never read.
void mha_attention(const ConstHeads& query, const ExpandedPages& cache,
                   std::span<const VisibleTokens> visible, float scale, const Heads& out,
                   Executor& executor);

// The same in a recorded step.
struct RecordedMhaAttention {
  std::string name;
  RecordedRows query;  // [heads, nope + rope] in every row
  ExpandedPages cache;
  graph::BufferId cache_buffer = 0;        // the cache, to the planner
  const VisibleTokens* visible = nullptr;  // [rows], which a replay finds filled
  float scale = 0;
  RecordedRows out;  // [heads, v] in every row
};
void record_mha_attention(graph::Recorder& recorder, const RecordedMhaAttention& call);

// The same in double.
void mha_attention_reference(const ConstHeads& query, const ExpandedPages& cache,
                             std::span<const VisibleTokens> visible, float scale, const Heads& out);

}  // namespace tessera::ops
