// The paged latent KV cache: one row [kv_lora_rank + rope] per token and layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include <tessera/dtype.h>

#include "base/buffer.h"
#include "model/config.h"
#include "ops/mla_attention/mla_attention.h"
#include "ops/rows.h"

namespace tessera {

using SequenceId = std::int32_t;

// Pages of kPageTokens tokens, shared by any number of sequences. A page belongs to one sequence at
// a time; memory is touched only when a page is first written.
class KvCache {
 public:
  static constexpr std::int64_t kPageTokens = 64;

  // What a cache for that many tokens takes, rounded up to whole pages; the largest std::size_t
  // where that is beyond it.
  static std::size_t bytes_for(const ModelConfig& config, DType dtype, std::int64_t tokens);

  // dtype: kF32 or kBF16. Throws Error(kOutOfMemory), before allocating, when the cache does not
  // fit into the memory that is free.
  KvCache(const ModelConfig& config, DType dtype, std::int64_t capacity_tokens);

  DType dtype() const { return dtype_; }
  std::int64_t free_pages() const { return std::ssize(free_pages_); }

  SequenceId add_sequence();
  void remove_sequence(SequenceId id);  // gives its pages back
  std::int64_t length(SequenceId id) const { return sequence(id).length; }

  // Pages that n more tokens of a sequence would take.
  std::int64_t pages_to_extend(SequenceId id, std::int64_t n) const;

  // Makes room for n more tokens at the end of a sequence. Throws Error(kContextOverflow), leaving
  // the sequence as it was, when the pages run out.
  void extend(SequenceId id, std::int64_t n);

  // Stores rows [n, kv_lora_rank + rope] as tokens first, first + 1, ... of a sequence, in one
  // layer.
  void write(std::int64_t layer, SequenceId id, std::int64_t first, const ops::ConstRows& rows);

  // What attention reads: a layer's pages, and the first `length` tokens of a sequence.
  ops::LatentPages layer(std::int64_t index) const;
  ops::VisibleTokens visible(SequenceId id, std::int64_t length) const;

  // All of a layer's memory, for tests that poison it.
  std::span<std::byte> raw_layer(std::int64_t index);

 private:
  struct Sequence {
    std::vector<std::int32_t> pages;
    std::int64_t length = 0;
    bool in_use = false;
  };
  const Sequence& sequence(SequenceId id) const { return sequences_[static_cast<std::size_t>(id)]; }

  DType dtype_;
  std::int64_t latent_dim_;
  std::int64_t rope_dim_;
  std::vector<Buffer> layers_;
  std::vector<std::int32_t> free_pages_;  // taken from the back
  std::vector<Sequence> sequences_;
};

}  // namespace tessera
