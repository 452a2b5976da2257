#include "model/segment.h"

#include "base/fail.h"

namespace tessera {

std::int64_t count_tokens(std::span<const Segment> segments) {
  std::int64_t n = 0;
  for (const Segment& s : segments) n += std::ssize(s.tokens);
  return n;
}

std::int64_t count_logits(std::span<const Segment> segments) {
  std::int64_t n = 0;
  for (const Segment& s : segments) n += s.n_logits;
  return n;
}

void check_step(std::span<const Segment> segments, const ModelConfig& config,
                const KvCache& cache) {
  std::int64_t pages = 0;
  for (const Segment& s : segments) {
    if (s.n_logits < 0 || s.n_logits > std::ssize(s.tokens)) {
      fail(ErrorCode::kInvalidArgument, "logits of {} tokens are wanted of a segment of {}",
           s.n_logits, s.tokens.size());
    }
    for (std::int32_t token : s.tokens) {
      if (token < 0 || token >= config.vocab_size) {
        fail(ErrorCode::kInvalidArgument, "token id {} is outside the vocabulary of {}", token,
             config.vocab_size);
      }
    }
    const std::int64_t length = cache.length(s.sequence) + std::ssize(s.tokens);
    if (length > config.max_positions) {
      fail(ErrorCode::kContextOverflow,
           "a sequence of {} tokens is longer than the {} positions of the model; shorten the "
           "prompt",
           length, config.max_positions);
    }
    pages += cache.pages_to_extend(s.sequence, std::ssize(s.tokens));
  }
  if (pages > cache.free_pages()) {
    fail(ErrorCode::kContextOverflow,
         "the KV cache is full: the step needs {} more tokens and {} are free; use a larger "
         "--context",
         pages * KvCache::kPageTokens, cache.free_pages() * KvCache::kPageTokens);
  }
}

}  // namespace tessera
