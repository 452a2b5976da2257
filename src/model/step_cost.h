// What a step of the forward pass must read and compute at least, by part: what measured times are
// held against.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "model/config.h"
#include "model/kv_cache.h"
#include "model/weights.h"
#include "ops/step_profile.h"
#include "tile/limits/limits.h"

namespace tessera {

struct PartCost {
  double bytes = 0;  // of weights and of rows of the cache, each read once
  std::array<double, std::size(tile::kDots)> operations = {};  // by what multiplies them

  double all_operations() const;
  PartCost& operator+=(const PartCost& other);
};

struct StepCost {
  std::array<PartCost, ops::kStepParts> parts = {};

  PartCost& of(ops::StepPart part) { return parts[static_cast<std::size_t>(part)]; }
  PartCost total() const;
};

// New tokens of a sequence behind those in its cache.
struct SegmentSize {
  std::int64_t before = 0;
  std::int64_t tokens = 1;
  std::int64_t n_logits = 1;
  bool expanded = false;  // attended in expanded form over a latent cache
};

// n_experts: routed experts that were read, summed over the layers (StepProfile). A multiplication
// and an addition are two operations; norms, rotations, softmax and activations are not counted.
StepCost step_cost(const ModelConfig& config, const ModelWeights& weights, const KvCache& cache,
                   std::span<const SegmentSize> segments, std::int64_t n_experts);

}  // namespace tessera
