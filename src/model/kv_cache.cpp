#include "model/kv_cache.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/convert.h"
#include "base/fail.h"
#include "base/machine.h"
#include "base/numa.h"

namespace tessera {

namespace {

std::int64_t pages_for(std::int64_t tokens) {
  return tokens / KvCache::kPageTokens + (tokens % KvCache::kPageTokens != 0 ? 1 : 0);
}

std::size_t token_bytes(const ModelConfig& c, DType dtype, KvCacheForm form) {
  const std::int64_t values = form == KvCacheForm::kLatent
                                  ? c.kv_lora_rank + c.qk_rope_dim
                                  : c.n_heads * (c.qk_nope_dim + c.v_dim) + c.qk_rope_dim;
  return static_cast<std::size_t>(values) * size_in_bytes(dtype);
}

}  // namespace

std::string_view to_string(KvCacheForm form) {
  return form == KvCacheForm::kLatent ? "latent" : "expanded";
}

std::size_t KvCache::bytes_for(const ModelConfig& config, DType dtype, std::int64_t tokens,
                               KvCacheForm form) {
  const std::size_t page_bytes =
      token_bytes(config, dtype, form) * static_cast<std::size_t>(kPageTokens * config.n_layers);
  const auto n_pages = static_cast<std::size_t>(pages_for(tokens));
  constexpr auto kMax = std::numeric_limits<std::size_t>::max();
  return n_pages <= kMax / page_bytes ? n_pages * page_bytes : kMax;
}

KvCache::KvCache(const ModelConfig& config, DType dtype, std::int64_t capacity_tokens,
                 KvCacheForm form, std::size_t mapped_bytes)
    : dtype_(dtype),
      form_(form),
      latent_dim_(config.kv_lora_rank),
      rope_dim_(config.qk_rope_dim),
      n_heads_(config.n_heads),
      nope_dim_(config.qk_nope_dim),
      v_dim_(config.v_dim),
      n_pages_(pages_for(capacity_tokens)) {
  assert((dtype == DType::kF32 || dtype == DType::kBF16) && capacity_tokens >= 0);
  const std::size_t needed = bytes_for(config, dtype, capacity_tokens, form);
  std::size_t available = available_memory_bytes();
  // Weights that do not fit are read again and again in any case.
  if (mapped_bytes < available) available -= mapped_bytes;
  if (needed > available) {
    const std::size_t per_token =
        token_bytes(config, dtype, form) * static_cast<std::size_t>(config.n_layers);
    const bool expanded = form == KvCacheForm::kExpanded;
    fail(ErrorCode::kOutOfMemory,
         "{} KV cache for {} tokens takes {:.2f} GB ({} bytes a token), but {:.2f} GB are free, "
         "enough for {}; use a smaller --context{}",
         expanded ? "an expanded" : "a", capacity_tokens, needed / 1e9, per_token, available / 1e9,
         std::max<std::size_t>(available / per_token / kPageTokens * kPageTokens, 1),
         expanded ? ", or --kv-cache latent" : "");
  }
  for (std::int64_t i = 0; i < config.n_layers; ++i) {
    Buffer& layer = layers_.emplace_back(needed / static_cast<std::size_t>(config.n_layers));
    // Any thread reads any page.
    interleave_over_nodes(layer.data(), layer.size());
  }
  for (std::int64_t page = n_pages_; page-- > 0;) {
    free_pages_.push_back(static_cast<std::int32_t>(page));
  }
}

std::size_t KvCache::bytes() const {
  std::size_t sum = 0;
  for (const Buffer& layer : layers_) sum += layer.size();
  return sum;
}

std::size_t KvCache::row_bytes() const {
  const std::int64_t values = form_ == KvCacheForm::kLatent
                                  ? latent_dim_ + rope_dim_
                                  : n_heads_ * (nope_dim_ + v_dim_) + rope_dim_;
  return static_cast<std::size_t>(values) * size_in_bytes(dtype_);
}

SequenceId KvCache::add_sequence() {
  auto free = std::ranges::find_if(sequences_, [](const Sequence& s) { return !s.in_use; });
  if (free == sequences_.end()) free = sequences_.emplace(sequences_.end());
  free->in_use = true;
  // Attention keeps spans of the pages, and a replayed step allocates nothing.
  free->pages.reserve(static_cast<std::size_t>(n_pages_));
  return static_cast<SequenceId>(free - sequences_.begin());
}

void KvCache::remove_sequence(SequenceId id) {
  Sequence& s = sequences_[static_cast<std::size_t>(id)];
  assert(s.in_use);
  free_pages_.insert(free_pages_.end(), s.pages.rbegin(), s.pages.rend());
  s.pages.clear();  // which keeps their memory
  s.length = 0;
  s.in_use = false;
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

std::int64_t KvCache::slot(SequenceId id, std::int64_t token) const {
  const Sequence& s = sequence(id);
  assert(0 <= token && token < s.length);
  return s.pages[static_cast<std::size_t>(token / kPageTokens)] * kPageTokens + token % kPageTokens;
}

void KvCache::write(std::int64_t layer, SequenceId id, std::int64_t first,
                    const ops::ConstRows& rows) {
  assert(rows.columns == latent_dim_ + rope_dim_);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    write_slot(layer, slot(id, first + r), rows.row(r).data());
  }
}

void KvCache::write_slot(std::int64_t layer, std::int64_t slot, const float* row) {
  assert(form_ == KvCacheForm::kLatent);
  const auto n = static_cast<std::size_t>(latent_dim_ + rope_dim_);
  std::byte* to = layer_memory(layer) + static_cast<std::size_t>(slot) * n * size_in_bytes(dtype_);
  convert(row, DType::kF32, to, dtype_, n);
}

void KvCache::write_expanded(std::int64_t layer, SequenceId id, std::int64_t first,
                             const ops::ConstRows& heads, const ops::ConstRows& k_pe) {
  assert(heads.rows == k_pe.rows);
  assert(heads.columns == n_heads_ * (nope_dim_ + v_dim_) && k_pe.columns == rope_dim_);
  for (std::int64_t r = 0; r < heads.rows; ++r) {
    write_expanded_slot(layer, slot(id, first + r), heads.row(r).data(), k_pe.row(r).data());
  }
}

void KvCache::write_expanded_slot(std::int64_t layer, std::int64_t slot, const float* heads,
                                  const float* k_pe) {
  assert(form_ == KvCacheForm::kExpanded);
  ops::MlaPrologCall to;
  direct_to(layer, to);
  const std::int64_t page = slot / kPageTokens;
  const std::int64_t place = slot % kPageTokens;
  for (std::int64_t h = 0; h < n_heads_; ++h) {
    const float* both = heads + h * (nope_dim_ + v_dim_);
    convert(both, DType::kF32, to.k_nope.at(page, h, place), dtype_,
            static_cast<std::size_t>(nope_dim_));
    convert(both + nope_dim_, DType::kF32, to.value.at(page, h, place), dtype_,
            static_cast<std::size_t>(v_dim_));
  }
  convert(k_pe, DType::kF32, to.k_pe.at(page, 0, place), dtype_,
          static_cast<std::size_t>(rope_dim_));
}

void KvCache::direct_to(std::int64_t layer, ops::MlaPrologCall& call) {
  std::byte* base = layer_memory(layer);
  call.blocks = n_pages_;
  call.block_tokens = kPageTokens;
  if (form_ == KvCacheForm::kLatent) {
    call.latent = {base, dtype_};
    return;
  }
  const ops::ExpandedPages pages = expanded_layer(layer);
  const auto part = [&](const std::byte* start, std::int64_t heads, std::int64_t dim) {
    return ops::HeadTensor::dense(base + (start - base), dtype_, heads, kPageTokens, dim);
  };
  call.k_nope = part(pages.k_nope, n_heads_, nope_dim_);
  call.value = part(pages.value, n_heads_, v_dim_);
  call.k_pe = part(pages.k_pe, 1, rope_dim_);
}

ops::LatentPages KvCache::layer(std::int64_t index) const {
  assert(form_ == KvCacheForm::kLatent);
  return {layers_[static_cast<std::size_t>(index)].data(), dtype_, kPageTokens, latent_dim_,
          rope_dim_};
}

ops::ExpandedPages KvCache::expanded_layer(std::int64_t index) const {
  assert(form_ == KvCacheForm::kExpanded);
  const std::byte* k_nope = layers_[static_cast<std::size_t>(index)].data();
  const auto bytes = [&](std::int64_t values_per_token) {
    return static_cast<std::size_t>(n_pages_ * kPageTokens * values_per_token) *
           size_in_bytes(dtype_);
  };
  const std::byte* value = k_nope + bytes(n_heads_ * nope_dim_);
  const std::byte* k_pe = value + bytes(n_heads_ * v_dim_);
  return {k_nope, value, k_pe, dtype_, kPageTokens, n_heads_, nope_dim_, rope_dim_, v_dim_};
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
