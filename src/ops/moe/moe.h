// The routed experts of a mixture-of-experts layer.
#pragma once

#include <cstdint>
#include <span>

#include "ops/executor.h"
#include "ops/rows.h"
#include "ops/weight.h"

namespace tessera::ops {

// A SwiGLU feed-forward network: y = down * (silu(gate * x) . (up * x)).
struct FeedForward {
  Weight gate_up;  // [2 n, hidden]: the gate's rows, then those of up
  Weight down;     // [hidden, n]
};

// y [rows, hidden] = ffn(x); y does not overlap x. Scratch is allocated per call.
void feed_forward(const ConstRows& x, const FeedForward& ffn, const Rows& y, Executor& executor);

// y += sum over the top_k choices of each token of weight * expert(x). chosen, weights:
// [rows * top_k] as route() writes them. A token's experts are added in rising order of index, so
// the sum does not depend on the order of the choices. Experts that no token chose are not read.
void moe(const ConstRows& x, std::span<const FeedForward> experts,
         std::span<const std::int32_t> chosen, std::span<const float> weights, const Rows& y,
         Executor& executor);

// Both in double, one token at a time.
void feed_forward_reference(const ConstRows& x, const FeedForward& ffn, const Rows& y);
void moe_reference(const ConstRows& x, std::span<const FeedForward> experts,
                   std::span<const std::int32_t> chosen, std::span<const float> weights,
                   const Rows& y);

}  // namespace tessera::ops
