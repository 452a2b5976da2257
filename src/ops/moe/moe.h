// Feed-forward networks, and mixtures of them (DeepSeekMoE, arXiv:2401.06066).
#pragma once

#include <cstdint>
#include <span>

#include "ops/executor.h"
#include "ops/linear/linear.h"
#include "ops/rows.h"

namespace tessera::ops {

// A SwiGLU feed-forward network: ffn(x) = down * (silu(gate * x) . (up * x)).
struct FeedForward {
  PackedLinear gate_up;  // gate and up, [n, hidden] each
  PackedLinear down;     // [hidden, n]

  bool empty() const { return down.empty(); }
};

// y [rows, hidden] += ffn(x [rows, hidden]); y does not overlap x.
void feed_forward(const ConstRows& x, const FeedForward& ffn, const Rows& y, Executor& executor);

// y += shared(x) + sum over the top_k choices of each token of weight * expert(x). chosen, weights:
// [rows * top_k] as route() writes them; shared may be empty. A token's experts are added in rising
// order of index, so the sum does not depend on the order of the choices, nor a row on the other
// rows. Experts that no token chose are not read. Two parallel regions, whatever the experts.
void moe(const ConstRows& x, std::span<const FeedForward> experts, const FeedForward& shared,
         std::span<const std::int32_t> chosen, std::span<const float> weights, const Rows& y,
         Executor& executor);

// Both in double, one token at a time; x and the inner values are rounded as the layouts ask, or
// not at all.
void feed_forward_reference(const ConstRows& x, const FeedForward& ffn, const Rows& y,
                            RoundActivations rounding);
void moe_reference(const ConstRows& x, std::span<const FeedForward> experts,
                   const FeedForward& shared, std::span<const std::int32_t> chosen,
                   std::span<const float> weights, const Rows& y, RoundActivations rounding);

}  // namespace tessera::ops
