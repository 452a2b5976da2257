#include "model/synth/statistics.h"

#include <cmath>
#include <string_view>

namespace tessera {

namespace {

constexpr double kNormSpread = 0.05;
constexpr double kLogitStd = 2.5;
constexpr double kRouterMin = 0.8;
constexpr double kRouterMax = 1.4;
constexpr double kBiasShare = 0.1;
constexpr double kSwigluRms = 0.6;  // of silu(g) * u for g and u normal with std 1

struct Normal {
  double mean;
  double std;
};

bool is_router(std::string_view name) {
  return name.ends_with(".mlp.gate.weight");
}

double head_std(const ModelConfig& c) {
  return kLogitStd / std::sqrt(static_cast<double>(c.hidden_size));
}

double embedding_std(const ModelConfig& c) {
  return c.tie_word_embeddings ? head_std(c) : 1;
}

// RMS of what one branch adds to the residual stream.
double branch_rms(const ModelConfig& c) {
  return embedding_std(c) / std::sqrt(2 * static_cast<double>(c.n_layers));
}

double routed_gain(const ModelConfig& c) {
  const bool normalised = c.norm_topk_prob && c.n_experts_per_token > 1;
  return std::sqrt(static_cast<double>(c.n_experts_per_token)) /
         (normalised ? 1 : c.routed_scaling_factor);
}

Normal distribution(const TensorShape& tensor, const ModelConfig& c) {
  const std::string_view name = tensor.name;
  if (name == "model.embed_tokens.weight") return {0, embedding_std(c)};
  if (name == "lm_head.weight") return {0, head_std(c)};
  if (name.ends_with("norm.weight")) return {1, kNormSpread};
  if (name.ends_with(".o_proj.bias")) return {0, kBiasShare * branch_rms(c)};
  if (name.ends_with(".bias")) return {0, kBiasShare};

  const double unit = 1 / std::sqrt(static_cast<double>(tensor.shape.back()));
  if (name.ends_with(".o_proj.weight")) return {0, unit * branch_rms(c)};
  if (name.ends_with(".down_proj.weight")) {
    const bool is_routed = name.find(".mlp.experts.") != std::string_view::npos;
    return {0, unit * branch_rms(c) / kSwigluRms * (is_routed ? routed_gain(c) : 1)};
  }
  return {0, unit};
}

StreamRun stream_run(std::uint64_t key, const Normal& normal, std::int64_t n) {
  return {{key, static_cast<float>(normal.mean), static_cast<float>(normal.std)},
          static_cast<std::size_t>(n)};
}

std::vector<StreamRun> router_rows(const TensorShape& tensor, std::uint64_t seed) {
  const std::int64_t hidden = tensor.shape.back();
  std::vector<StreamRun> rows;
  for (std::int64_t e = 0; e < tensor.shape.front(); ++e) {
    const auto index = static_cast<std::uint64_t>(e);
    const double share = uniform(stream_key(seed, tensor.name + ".row_std", index));
    const double row_std = kRouterMin + (kRouterMax - kRouterMin) * share;
    rows.push_back(stream_run(stream_key(seed, tensor.name, index),
                              {0, row_std / std::sqrt(static_cast<double>(hidden))}, hidden));
  }
  return rows;
}

}  // namespace

std::vector<StreamRun> value_streams(const TensorShape& tensor, const ModelConfig& config,
                                     std::uint64_t seed) {
  if (is_router(tensor.name)) return router_rows(tensor, seed);
  std::int64_t n = 1;
  for (std::int64_t dim : tensor.shape) n *= dim;
  return {stream_run(stream_key(seed, tensor.name), distribution(tensor, config), n)};
}

}  // namespace tessera
