#include "model/synth/presets.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "io/quote.h"

namespace tessera {

namespace {

using nlohmann::ordered_json;

struct Preset {
  std::string_view name;
  std::string_view config;
};

// DeepSeek-V2-Lite, 16 B parameters.
constexpr std::string_view kDeepseekV2Lite = R"({
  "architectures": ["DeepseekV2ForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": 100000,
  "eos_token_id": 100001,
  "first_k_dense_replace": 1,
  "hidden_act": "silu",
  "hidden_size": 2048,
  "initializer_range": 0.02,
  "intermediate_size": 10944,
  "kv_lora_rank": 512,
  "max_position_embeddings": 163840,
  "model_type": "deepseek_v2",
  "moe_intermediate_size": 1408,
  "moe_layer_freq": 1,
  "n_group": 1,
  "n_routed_experts": 64,
  "n_shared_experts": 2,
  "norm_topk_prob": false,
  "num_attention_heads": 16,
  "num_experts_per_tok": 6,
  "num_hidden_layers": 27,
  "num_key_value_heads": 16,
  "q_lora_rank": null,
  "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64,
  "rms_norm_eps": 1e-06,
  "rope_scaling": {
    "beta_fast": 32,
    "beta_slow": 1,
    "factor": 40,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 4096,
    "type": "yarn"
  },
  "rope_theta": 10000,
  "routed_scaling_factor": 1.0,
  "scoring_func": "softmax",
  "tie_word_embeddings": false,
  "topk_group": 1,
  "topk_method": "greedy",
  "torch_dtype": "bfloat16",
  "use_cache": true,
  "v_head_dim": 128,
  "vocab_size": 102400
})";

// DeepSeek-V2, 236 B parameters.
constexpr std::string_view kDeepseekV2 = R"({
  "architectures": ["DeepseekV2ForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": 100000,
  "eos_token_id": 100001,
  "first_k_dense_replace": 1,
  "hidden_act": "silu",
  "hidden_size": 5120,
  "initializer_range": 0.02,
  "intermediate_size": 12288,
  "kv_lora_rank": 512,
  "max_position_embeddings": 163840,
  "model_type": "deepseek_v2",
  "moe_intermediate_size": 1536,
  "moe_layer_freq": 1,
  "n_group": 8,
  "n_routed_experts": 160,
  "n_shared_experts": 2,
  "norm_topk_prob": false,
  "num_attention_heads": 128,
  "num_experts_per_tok": 6,
  "num_hidden_layers": 60,
  "num_key_value_heads": 128,
  "q_lora_rank": 1536,
  "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64,
  "rms_norm_eps": 1e-06,
  "rope_scaling": {
    "beta_fast": 32,
    "beta_slow": 1,
    "factor": 40,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 4096,
    "type": "yarn"
  },
  "rope_theta": 10000,
  "routed_scaling_factor": 16.0,
  "scoring_func": "softmax",
  "tie_word_embeddings": false,
  "topk_group": 3,
  "topk_method": "group_limited_greedy",
  "torch_dtype": "bfloat16",
  "use_cache": true,
  "v_head_dim": 128,
  "vocab_size": 102400
})";

// The sizes of DeepSeek-V3, 671 B parameters, in the architecture of V2: softmax scores in place of
// sigmoid ones with a bias, and weights of the chosen experts that are not normalised.
constexpr std::string_view kDeepseekV3Shape = R"({
  "architectures": ["DeepseekV2ForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": 0,
  "eos_token_id": 1,
  "first_k_dense_replace": 3,
  "hidden_act": "silu",
  "hidden_size": 7168,
  "initializer_range": 0.02,
  "intermediate_size": 18432,
  "kv_lora_rank": 512,
  "max_position_embeddings": 163840,
  "model_type": "deepseek_v2",
  "moe_intermediate_size": 2048,
  "moe_layer_freq": 1,
  "n_group": 8,
  "n_routed_experts": 256,
  "n_shared_experts": 1,
  "norm_topk_prob": false,
  "num_attention_heads": 128,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 61,
  "num_key_value_heads": 128,
  "q_lora_rank": 1536,
  "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64,
  "rms_norm_eps": 1e-06,
  "rope_scaling": {
    "beta_fast": 32,
    "beta_slow": 1,
    "factor": 40,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096,
    "type": "yarn"
  },
  "rope_theta": 10000,
  "routed_scaling_factor": 2.5,
  "scoring_func": "softmax",
  "tie_word_embeddings": false,
  "topk_group": 4,
  "topk_method": "group_limited_greedy",
  "torch_dtype": "bfloat16",
  "use_cache": true,
  "v_head_dim": 128,
  "vocab_size": 129280
})";

constexpr std::array kPresets = {Preset{"deepseek-v2-lite", kDeepseekV2Lite},
                                 Preset{"deepseek-v2", kDeepseekV2},
                                 Preset{"deepseek-v3-shape", kDeepseekV3Shape}};

}  // namespace

std::vector<std::string_view> synth_presets() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

std::string synth_config(std::string_view preset, std::optional<std::int64_t> n_layers) {
  const auto found = std::ranges::find(kPresets, preset, &Preset::name);
  if (found == kPresets.end()) {
    fail(ErrorCode::kInvalidArgument, "there is no model {} to be like; choose one of {}",
         in_quotes(preset), fmt::join(synth_presets(), ", "));
  }
  ordered_json config = ordered_json::parse(found->config);
  if (n_layers) {
    const std::int64_t max = kMaxLayersFactor * config["num_hidden_layers"].get<std::int64_t>();
    if (*n_layers < 1 || *n_layers > max) {
      fail(ErrorCode::kInvalidArgument, "a model like {} can have 1 to {} layers, not {}", preset,
           max, *n_layers);
    }
    config["num_hidden_layers"] = *n_layers;
    config["first_k_dense_replace"] =
        std::min(*n_layers, config["first_k_dense_replace"].get<std::int64_t>());
  }
  return config.dump(2) + "\n";
}

}  // namespace tessera
