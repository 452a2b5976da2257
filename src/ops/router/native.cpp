#include "ops/router/top_k.h"

namespace tessera::ops {

std::string_view to_string(TopKMethod method) {
  return method == TopKMethod::kGreedy ? "greedy" : "group_limited_greedy";
}

void route(const ConstRows& logits, const RouterParameters& parameters, std::span<std::int32_t> experts,
        std::span<float> weights) {
  route_rows<float>(logits, parameters, experts, weights);
}

}  // namespace tessera::ops
