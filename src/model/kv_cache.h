// The paged KV cache, in one of two forms: what attention in absorbed form reads
// (ops/mla_attention) or what it reads in expanded form (ops/mha_attention).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include <tessera/dtype.h>

#include "base/buffer.h"
#include "model/config.h"
#include "ops/mha_attention/mha_attention.h"
#include "ops/mla_attention/mla_attention.h"
#include "ops/mla_prolog/mla_prolog.h"
#include "ops/rows.h"

namespace tessera {

using SequenceId = std::int32_t;

// What is kept per token and layer.
enum class KvCacheForm {
  kLatent,    // one row [kv_lora_rank + rope] for all heads
  kExpanded,  // per head k_nope [nope] and value [v], and one k_pe [rope] for all heads
};

std::string_view to_string(KvCacheForm form);  // "latent", "expanded"

// Pages of kPageTokens tokens, shared by any number of sequences. A page belongs to one sequence at
// a time; memory is touched only when a page is first written.
class KvCache {
 public:
  static constexpr std::int64_t kPageTokens = 64;

  // What a cache for that many tokens takes, rounded up to whole pages; the largest std::size_t
  // where that is beyond it.
  static std::size_t bytes_for(const ModelConfig& config, DType dtype, std::int64_t tokens,
                               KvCacheForm form = KvCacheForm::kLatent);

  // dtype: kF32 or kBF16. Throws Error(kOutOfMemory), before allocating, when the cache does not
  // fit into the memory that is free beside mapped_bytes of weights in files, which must not lose
  // their pages to it.
  KvCache(const ModelConfig& config, DType dtype, std::int64_t capacity_tokens,
          KvCacheForm form = KvCacheForm::kLatent, std::size_t mapped_bytes = 0);

  DType dtype() const { return dtype_; }
  std::size_t row_bytes() const;  // of one token in one layer
  std::int64_t capacity_tokens() const { return n_pages_ * kPageTokens; }
  std::size_t bytes() const;
  KvCacheForm form() const { return form_; }
  std::int64_t free_pages() const { return std::ssize(free_pages_); }

  SequenceId add_sequence();
  void remove_sequence(SequenceId id);  // gives its pages back
  std::int64_t length(SequenceId id) const { return sequence(id).length; }

  // Pages that n more tokens of a sequence would take.
  std::int64_t pages_to_extend(SequenceId id, std::int64_t n) const;

  // Makes room for n more tokens at the end of a sequence. Throws Error(kContextOverflow), leaving
  // the sequence as it was, when the pages run out.
  void extend(SequenceId id, std::int64_t n);

  // Where token `token` of a sequence stands: page * kPageTokens + place in the page.
  std::int64_t slot(SequenceId id, std::int64_t token) const;

  // Stores rows [n, kv_lora_rank + rope] as tokens first, first + 1, ... of a sequence, in one
  // layer of a latent cache.
  void write(std::int64_t layer, SequenceId id, std::int64_t first, const ops::ConstRows& rows);

  // The same in an expanded cache: heads [n, heads * (nope + v)], per head its key, then its value;
  // k_pe [n, rope].
  void write_expanded(std::int64_t layer, SequenceId id, std::int64_t first,
                      const ops::ConstRows& heads, const ops::ConstRows& k_pe);

  // The same for one token in its slot: row [kv_lora_rank + rope]; heads [heads * (nope + v)] and
  // k_pe [rope].
  void write_slot(std::int64_t layer, std::int64_t slot, const float* row);
  void write_expanded_slot(std::int64_t layer, std::int64_t slot, const float* heads,
                           const float* k_pe);

  // Sets the outputs of a call to a layer's memory; the call's slots are those of slot().
  void direct_to(std::int64_t layer, ops::MlaPrologCall& call);

  // What attention reads: a layer's pages in the form of this cache, and the first `length` tokens
  // of a sequence.
  ops::LatentPages layer(std::int64_t index) const;
  ops::ExpandedPages expanded_layer(std::int64_t index) const;
  ops::VisibleTokens visible(SequenceId id, std::int64_t length) const;

  // All of a layer's memory, for tests that poison it and benchmarks that fill it.
  std::span<std::byte> raw_layer(std::int64_t index);

 private:
  struct Sequence {
    std::vector<std::int32_t> pages;
    std::int64_t length = 0;
    bool in_use = false;
  };
  const Sequence& sequence(SequenceId id) const { return sequences_[static_cast<std::size_t>(id)]; }

  std::byte* layer_memory(std::int64_t index) {
    return layers_[static_cast<std::size_t>(index)].data();
  }

  DType dtype_;
  KvCacheForm form_;
  std::int64_t latent_dim_;
  std::int64_t rope_dim_;
  std::int64_t n_heads_;
  std::int64_t nope_dim_;
  std::int64_t v_dim_;
  // Latent: rows of all pages. Expanded: k_nope [pages, heads, kPageTokens, nope], then value
  // [pages, heads, kPageTokens, v], then k_pe [pages, kPageTokens, rope].
  std::int64_t n_pages_;
  std::vector<Buffer> layers_;
  std::vector<std::int32_t> free_pages_;  // taken from the back
  std::vector<Sequence> sequences_;
};

}  // namespace tessera
