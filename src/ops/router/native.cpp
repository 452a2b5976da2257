#include "ops/router/top_k.h"

namespace tessera::ops {

void route(const ConstRows& logits, const RouterParameters& parameters, std::span<std::int32_t> experts,
        std::span<float> weights) {
  route_rows<float>(logits, parameters, experts, weights);
}

}  // namespace tessera::ops
