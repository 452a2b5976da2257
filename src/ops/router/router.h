// Which experts a token goes to, and how much each counts (DeepSeek-V2, section 2.2).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/rows.h"

namespace tessera::ops {

enum class TopKMethod {
  kGreedy,              // the top_k largest scores
  kGroupLimitedGreedy,  // the same within the top_k_groups groups whose largest scores are largest
};

std::string_view to_string(
    TopKMethod method);  // as in config.json: "greedy", "group_limited_greedy"

struct RouterParameters {
  std::int64_t top_k = 1;  // experts per token
  TopKMethod method = TopKMethod::kGreedy;
  std::int64_t n_groups = 1;      // divides the number of experts
  std::int64_t top_k_groups = 1;  // top_k <= experts in that many groups
  bool normalise = false;         // weights of a token sum to 1
  float scale = 1;                // on the weights where they are not normalised
};

// logits [tokens, experts] fp32. Writes for each token top_k expert indices, highest score first
// (of equal scores the lower index), and their weights: softmax over all experts, times scale or
// normalised. experts, weights: [tokens * top_k].
void route(const ConstRows& logits, const RouterParameters& parameters,
           std::span<std::int32_t> experts, std::span<float> weights);

// One token, in memory of the caller: nothing is allocated. Writes top_k experts and weights.
struct RouterScratch {
  float* scores;        // [experts]
  float* best;          // [n_groups], up to [experts]
  std::int32_t* order;  // [experts]
};
void route_token(std::span<const float> logits, const RouterParameters& parameters,
                 const RouterScratch& scratch, std::int32_t* experts, float* weights);

// The same as route() with the softmax in double.
void route_reference(const ConstRows& logits, const RouterParameters& parameters,
                     std::span<std::int32_t> experts, std::span<float> weights);

}  // namespace tessera::ops
