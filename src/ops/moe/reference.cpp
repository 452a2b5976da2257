#include <algorithm>
#include <vector>

#include "ops/moe/moe.h"

namespace tessera::ops {

namespace {

// The network's output for one token, alone.
std::vector<float> output(const ConstRows& x, const FeedForward& ffn, RoundActivations rounding) {
  std::vector<float> inner(static_cast<std::size_t>(ffn.down.k()));
  std::vector<float> out(static_cast<std::size_t>(ffn.down.n()));
  LinearJob job;
  job.x = x;
  job.w = &ffn.gate_up;
  job.y = Rows(inner.data(), 1, ffn.down.k());
  job.epilogue = Epilogue::kSwiglu;
  linear_reference(job, rounding);
  job.x = job.y;
  job.w = &ffn.down;
  job.y = Rows(out.data(), 1, ffn.down.n());
  job.epilogue = Epilogue::kStore;
  linear_reference(job, rounding);
  return out;
}

}  // namespace

void feed_forward_reference(const ConstRows& x, const FeedForward& ffn, const Rows& y,
                            RoundActivations rounding) {
  for (std::int64_t token = 0; token < x.rows; ++token) {
    const std::vector<float> out = output(x.rows_from(token, 1), ffn, rounding);
    std::ranges::transform(out, y.row(token), y.row(token).begin(), std::plus());
  }
}

void moe_reference(const ConstRows& x, std::span<const FeedForward> experts,
                   const FeedForward& shared, std::span<const std::int32_t> chosen,
                   std::span<const float> weights, const Rows& y, RoundActivations rounding) {
  if (x.rows == 0) return;
  const std::size_t top_k = chosen.size() / static_cast<std::size_t>(x.rows);
  for (std::int64_t token = 0; token < x.rows; ++token) {
    const ConstRows row = x.rows_from(token, 1);
    std::vector<double> sum(y.row(token).begin(), y.row(token).end());
    const auto add = [&](const FeedForward& ffn, double weight) {
      const std::vector<float> out = output(row, ffn, rounding);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * out[i];
    };
    if (!shared.empty()) add(shared, 1);
    for (std::size_t choice = 0; choice < top_k; ++choice) {
      const std::size_t at = static_cast<std::size_t>(token) * top_k + choice;
      add(experts[static_cast<std::size_t>(chosen[at])], weights[at]);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) y.row(token)[i] = static_cast<float>(sum[i]);
  }
}

}  // namespace tessera::ops
