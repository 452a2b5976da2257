#include "model/kv_cache.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/convert.h"
#include "base/fail.h"
#include "base/machine.h"

namespace tessera {

namespace {

std::int64_t pages_for(std::int64_t tokens) {
  return tokens / KvCache::kPageTokens + (tokens % KvCache::kPageTokens != 0 ? 1 : 0);
}

std::size_t row_bytes(const ModelConfig& config, DType dtype) {
  return static_cast<std::size_t>(config.kv_lora_rank + config.qk_rope_dim) * size_in_bytes(dtype);
}

}  // namespace

std::size_t KvCache::bytes_for(const ModelConfig& config, DType dtype, std::int64_t tokens) {
  const std::size_t page_bytes =
      row_bytes(config, dtype) * static_cast<std::size_t>(kPageTokens * config.n_layers);
  const auto n_pages = static_cast<std::size_t>(pages_for(tokens));
  constexpr auto kMax = std::numeric_limits<std::size_t>::max();
  return n_pages <= kMax / page_bytes ? n_pages * page_bytes : kMax;
}

KvCache::KvCache(const ModelConfig& config, DType dtype, std::int64_t capacity_tokens)
    : dtype_(dtype), latent_dim_(config.kv_lora_rank), rope_dim_(config.qk_rope_dim) {
  assert((dtype == DType::kF32 || dtype == DType::kBF16) && capacity_tokens >= 0);
  const std::size_t needed = bytes_for(config, dtype, capacity_tokens);
  const std::size_t available = available_memory_bytes();
  if (needed > available) {
    const std::size_t per_token =
        row_bytes(config, dtype) * static_cast<std::size_t>(config.n_layers);
    fail(ErrorCode::kOutOfMemory,
         "a KV cache for {} tokens takes {:.2f} GB ({} bytes a token), but {:.2f} GB are free; use "
         "--context {} or less",
         capacity_tokens, needed / 1e9, per_token, available / 1e9,
         std::max<std::size_t>(available / per_token / kPageTokens * kPageTokens, 1));
  }
  const std::int64_t n_pages = pages_for(capacity_tokens);
  for (std::int64_t i = 0; i < config.n_layers; ++i) {
    layers_.emplace_back(needed / static_cast<std::size_t>(config.n_layers));
  }
  for (std::int64_t page = n_pages; page-- > 0;) {
    free_pages_.push_back(static_cast<std::int32_t>(page));
  }
}

SequenceId KvCache::add_sequence() {
  auto free = std::ranges::find_if(sequences_, [](const Sequence& s) { return !s.in_use; });
  if (free == sequences_.end()) free = sequences_.emplace(sequences_.end());
  free->in_use = true;
  return static_cast<SequenceId>(free - sequences_.begin());
}

void KvCache::remove_sequence(SequenceId id) {
  Sequence& s = sequences_[static_cast<std::size_t>(id)];
  assert(s.in_use);
  free_pages_.insert(free_pages_.end(), s.pages.rbegin(), s.pages.rend());
  s = Sequence{};
}

std::int64_t KvCache::pages_to_extend(SequenceId id, std::int64_t n) const {
  return pages_for(sequence(id).length + n) - std::ssize(sequence(id).pages);
}

void KvCache::extend(SequenceId id, std::int64_t n) {
  Sequence& s = sequences_[static_cast<std::size_t>(id)];
  assert(s.in_use && n >= 0);
  const std::int64_t more = pages_to_extend(id, n);
  if (more > free_pages()) {
    fail(ErrorCode::kContextOverflow,
         "the KV cache is full: a sequence of {} tokens needs {} more, and {} are free; use a "
         "larger "
         "--context",
         s.length, n, free_pages() * kPageTokens);
  }
  for (std::int64_t i = 0; i < more; ++i) {
    s.pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
  s.length += n;
}

void KvCache::write(std::int64_t layer, SequenceId id, std::int64_t first,
                    const ops::ConstRows& rows) {
  const Sequence& s = sequence(id);
  assert(rows.columns == latent_dim_ + rope_dim_ && first + rows.rows <= s.length);
  std::byte* base = layers_[static_cast<std::size_t>(layer)].data();
  const auto n = static_cast<std::size_t>(rows.columns);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const std::int64_t token = first + r;
    const std::int64_t page = s.pages[static_cast<std::size_t>(token / kPageTokens)];
    const auto slot = static_cast<std::size_t>(page * kPageTokens + token % kPageTokens);
    convert(rows.row(r).data(), DType::kF32, base + slot * n * size_in_bytes(dtype_), dtype_, n);
  }
}

ops::LatentPages KvCache::layer(std::int64_t index) const {
  return {layers_[static_cast<std::size_t>(index)].data(), dtype_, kPageTokens, latent_dim_,
          rope_dim_};
}

ops::VisibleTokens KvCache::visible(SequenceId id, std::int64_t length) const {
  assert(length <= sequence(id).length);
  return {sequence(id).pages, length};
}

std::span<std::byte> KvCache::raw_layer(std::int64_t index) {
  Buffer& buffer = layers_[static_cast<std::size_t>(index)];
  return {buffer.data(), buffer.size()};
}

}  // namespace tessera
