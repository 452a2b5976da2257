#include <cmath>
#include <vector>

#include "ops/matmul/matmul.h"
#include "ops/moe/moe.h"
#include "ops/swiglu/swiglu.h"

namespace tessera::ops {

void feed_forward_reference(const ConstRows& x, const FeedForward& ffn, const Rows& y) {
  const std::int64_t n = ffn.down.k();
  std::vector<float> memory(static_cast<std::size_t>(x.rows * 2 * n));
  const Rows gate_up(memory.data(), x.rows, 2 * n);
  matmul_reference(x, ffn.gate_up.view(), gate_up);
  swiglu_reference(gate_up, gate_up.columns_from(0, n));
  matmul_reference(gate_up.columns_from(0, n), ffn.down.view(), y);
}

void moe_reference(const ConstRows& x, std::span<const FeedForward> experts,
                   std::span<const std::int32_t> chosen, std::span<const float> weights,
                   const Rows& y) {
  if (x.rows == 0) return;
  const std::size_t top_k = chosen.size() / static_cast<std::size_t>(x.rows);
  std::vector<float> out(static_cast<std::size_t>(x.columns));
  for (std::int64_t token = 0; token < x.rows; ++token) {
    std::vector<double> sum(y.row(token).begin(), y.row(token).end());
    for (std::size_t choice = 0; choice < top_k; ++choice) {
      const std::size_t at = static_cast<std::size_t>(token) * top_k + choice;
      feed_forward_reference(x.rows_from(token, 1), experts[static_cast<std::size_t>(chosen[at])],
                             Rows(out.data(), 1, x.columns));
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += static_cast<double>(weights[at]) * out[i];
      }
    }
    for (std::size_t i = 0; i < sum.size(); ++i) y.row(token)[i] = static_cast<float>(sum[i]);
  }
}

}  // namespace tessera::ops
