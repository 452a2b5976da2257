#include "model/synth/gguf_metadata.h"

#include <string>

#include "base/fail.h"

namespace tessera {

namespace {

// Numbers that the format gives to kinds of files and of scores.
constexpr std::uint32_t kQuantizationVersion = 2;
constexpr std::uint32_t kSoftmaxScores = 1;

std::uint32_t file_type(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return 0;
    case GgmlType::kQ4_0:
      return 2;
    case GgmlType::kQ8_0:
      return 7;
    case GgmlType::kBF16:
      return 32;
  }
  __builtin_unreachable();
}

class Writer {
 public:
  explicit Writer(GgufMetadata& metadata) : metadata_(metadata) {}

  void count(const char* key, std::int64_t value) {
    metadata_.add(kPrefix + key, static_cast<std::uint32_t>(value));
  }
  void number(const char* key, double value) {
    metadata_.add(kPrefix + key, static_cast<float>(value));
  }
  void text(const char* key, const char* value) { metadata_.add(kPrefix + key, value); }
  void flag(const char* key, bool value) { metadata_.add(kPrefix + key, value); }

 private:
  const std::string kPrefix = "deepseek2.";
  GgufMetadata& metadata_;
};

void add_attention(Writer& w, const ModelConfig& c) {
  w.count("attention.head_count", c.n_heads);
  w.count("attention.head_count_kv", 1);
  w.number("attention.layer_norm_rms_epsilon", c.rms_norm_eps);
  // Readers want the key unless they know the model by its number of layers; 0: one projection.
  w.count("attention.q_lora_rank", c.q_lora_rank.value_or(0));
  w.count("attention.kv_lora_rank", c.kv_lora_rank);
  w.count("attention.key_length", c.kv_lora_rank + c.qk_rope_dim);
  w.count("attention.value_length", c.kv_lora_rank);
  w.count("attention.key_length_mla", c.qk_dim());
  w.count("attention.value_length_mla", c.v_dim);
}

void add_rope(Writer& w, const ops::RopeParameters& rope) {
  w.count("rope.dimension_count", rope.dim);
  w.number("rope.freq_base", rope.theta);
  if (!rope.yarn) return;
  const ops::YarnParameters& yarn = *rope.yarn;
  if (yarn.mscale != yarn.mscale_all_dim) {
    fail(ErrorCode::kUnsupported,
         "GGUF files of this architecture have one mscale; mscale {} and mscale_all_dim {} differ",
         yarn.mscale, yarn.mscale_all_dim);
  }
  w.text("rope.scaling.type", "yarn");
  w.number("rope.scaling.factor", yarn.factor);
  w.count("rope.scaling.original_context_length", yarn.original_context);
  w.number("rope.scaling.yarn_beta_fast", yarn.beta_fast);
  w.number("rope.scaling.yarn_beta_slow", yarn.beta_slow);
  // With the 0.1 of mscale(s) = 0.1 m ln s + 1 in it.
  w.number("rope.scaling.yarn_log_multiplier", 0.1 * yarn.mscale_all_dim);
}

void add_feed_forward(Writer& w, const ModelConfig& c) {
  w.count("leading_dense_block_count", c.first_dense_layers);
  w.count("feed_forward_length", c.intermediate_size);
  // Readers want these, also where all layers are dense.
  w.count("expert_feed_forward_length",
          c.has_moe() ? c.moe_intermediate_size : c.intermediate_size);
  w.count("expert_shared_count", c.n_shared_experts);
  if (!c.has_moe()) return;
  if (c.n_shared_experts == 0) {
    fail(ErrorCode::kUnsupported, "GGUF files of this architecture have shared experts");
  }
  w.count("expert_count", c.n_routed_experts);
  w.count("expert_used_count", c.n_experts_per_token);
  w.count("expert_group_count", c.n_groups);
  w.count("expert_group_used_count", c.top_k_groups);
  w.count("expert_gating_func", kSoftmaxScores);
  w.number("expert_weights_scale", c.routed_scaling_factor);
  w.flag("expert_weights_norm", c.norm_topk_prob);
}

}  // namespace

GgufMetadata gguf_metadata(const ModelConfig& c, std::string_view name, GgmlType type) {
  GgufMetadata metadata;
  metadata.add("general.architecture", "deepseek2");
  metadata.add("general.type", "model");
  metadata.add("general.name", name);
  metadata.add("general.file_type", file_type(type));
  metadata.add("general.quantization_version", kQuantizationVersion);
  Writer w(metadata);
  w.count("vocab_size", c.vocab_size);
  w.count("context_length", c.max_positions);
  w.count("embedding_length", c.hidden_size);
  w.count("block_count", c.n_layers);
  add_attention(w, c);
  add_rope(w, c.rope);
  add_feed_forward(w, c);
  return metadata;
}

}  // namespace tessera
