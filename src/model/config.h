// config.json: the sizes and switches of a DeepSeek-V2 model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/rope/rope.h"
#include "ops/router/router.h"

namespace tessera {

// Plain data, consistent once load() or parse() returned it: every size is positive where it is
// used, and every product of sizes that makes a weight fits in 63 bits.
struct ModelConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t n_layers = 0;
  std::int64_t max_positions = 0;  // tokens

  // Attention. Queries and keys of a head have qk_nope_dim + qk_rope_dim elements.
  std::int64_t n_heads = 0;
  std::optional<std::int64_t> q_lora_rank;  // none: one query projection (q_proj)
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_dim = 0;
  std::int64_t qk_rope_dim = 0;  // even
  std::int64_t v_dim = 0;
  bool attention_bias =
      false;  // biases on q_a_proj, kv_a_proj_with_mqa and o_proj, and on no other
  ops::RopeParameters rope;

  // The MLP of the first first_dense_layers layers; 0 when there are none.
  std::int64_t first_dense_layers = 0;  // at most n_layers
  std::int64_t intermediate_size = 0;

  // The mixture of experts of the other layers; all 0 when there are none.
  std::int64_t moe_intermediate_size = 0;  // of one expert
  std::int64_t n_routed_experts = 0;
  std::int64_t n_shared_experts = 0;  // together one MLP, n_shared_experts times as wide; may be 0
  std::int64_t n_experts_per_token = 0;
  ops::TopKMethod topk_method = ops::TopKMethod::kGreedy;
  std::int64_t n_groups = 1;      // 1 unless topk_method is kGroupLimitedGreedy
  std::int64_t top_k_groups = 1;  // as n_groups
  // The k chosen weights are divided by their sum if norm_topk_prob and k > 1, else multiplied by
  // routed_scaling_factor.
  bool norm_topk_prob = false;
  double routed_scaling_factor = 1;

  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;  // the output head is the embedding

  std::optional<std::int64_t> bos_token_id;
  std::vector<std::int64_t> eos_token_ids;  // may be empty

  std::int64_t qk_dim() const { return qk_nope_dim + qk_rope_dim; }
  bool is_moe(std::int64_t layer) const { return layer >= first_dense_layers; }
  bool has_moe() const { return first_dense_layers < n_layers; }
  // What multiplies q.k before the softmax.
  float attention_scale() const { return static_cast<float>(ops::attention_scale(rope, qk_dim())); }
  ops::RouterParameters router() const;

  // Reads folder/config.json, in the spelling with rope_scaling and rope_theta or in the newer one
  // with rope_parameters. A key that is absent takes its usual value where there is one that says
  // nothing about the architecture (rms_norm_eps 1e-6, rope_theta 10000, topk_method greedy, no
  // biases, ...); a size, q_lora_rank or the expert counts never do.
  //
  // Throws Error: kFileNotFound and kIo as MappedFile; kBadJson; kBadConfig for values that are
  // absent, of the wrong type, out of range or contradictory; kUnsupported for what is well formed
  // but is not this architecture (another model_type, quantised weights, another rope or router,
  // ...).
  static ModelConfig load(const std::filesystem::path& folder);
  static ModelConfig parse(std::string_view json_text, const std::string& name_for_errors);
};

}  // namespace tessera
