// Absorbed attention in a recorded step: what mla_attention() computes, with the same bits, and the
// products out of the latent space, which each head starts as soon as it is through.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ops/linear/record.h"
#include "ops/mla_attention/mla_attention.h"

namespace tessera::ops {

struct RecordedAttention {
  std::string name;
  RecordedHeads query;  // in the latent space: [latent + rope] each
  LatentPages cache;
  graph::BufferId cache_buffer = 0;        // the cache, to the planner
  const VisibleTokens* visible = nullptr;  // [rows], which a replay finds filled
  std::int64_t longest = 0;                // tokens that a row may see
  float scale = 0;
  std::span<const PackedLinear> latent_to_value;  // per head [v, latent]
  RecordedHeads values;                           // written: [v] each
};

// False, and nothing is recorded: such a cache has no generated attention.
bool record_mla_attention(graph::Recorder& recorder, const RecordedAttention& call);

}  // namespace tessera::ops
