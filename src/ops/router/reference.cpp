#include "ops/router/top_k.h"

namespace tessera::ops {

void route_reference(const ConstRows& logits, const RouterParameters& parameters,
                     std::span<std::int32_t> experts, std::span<float> weights) {
  route_rows<double>(logits, parameters, experts, weights);
}

}  // namespace tessera::ops
