// What a step of the forward pass is given.
#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"
#include "model/kv_cache.h"

namespace tessera {

// New tokens of one sequence; they follow those already in its cache.
struct Segment {
  SequenceId sequence;
  std::span<const std::int32_t> tokens;
  std::int64_t n_logits = 1;  // logits are wanted for that many of its last tokens, 0 to all
};

std::int64_t count_tokens(std::span<const Segment> segments);
std::int64_t count_logits(std::span<const Segment> segments);

// Everything that can be wrong with a step, before anything is changed. Throws
// Error(kInvalidArgument) for a token outside the vocabulary and Error(kContextOverflow) when the
// cache or the model's positions run out.
void check_step(std::span<const Segment> segments, const ModelConfig& config, const KvCache& cache);

}  // namespace tessera
