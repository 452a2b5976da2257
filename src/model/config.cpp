#include "model/config.h"

#include <algorithm>
#include <array>

#include "base/fail.h"
#include "io/json_file.h"
#include "io/quote.h"

namespace tessera {

namespace {

constexpr std::string_view kModelType = "deepseek_v2";
constexpr std::string_view kArchitecture = "DeepseekV2ForCausalLM";

// Far above every model of the family (V2: 60 layers, hidden 5120, vocabulary 102400, 160 experts),
// and low enough that products of a few sizes, as they make weights, fit in 63 bits.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 20;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMaxLayers = 1 << 12;
constexpr std::int64_t kMaxExperts = 1 << 14;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30;
constexpr double kMaxParameters = 1e15;  // 2 petabytes in bf16

template <typename... Args>
[[noreturn]] void unsupported(fmt::format_string<Args...> sentence, Args&&... args) {
  fail(ErrorCode::kUnsupported, sentence, std::forward<Args>(args)...);
}

template <typename... Args>
[[noreturn]] void contradictory(fmt::format_string<Args...> sentence, Args&&... args) {
  fail(ErrorCode::kBadConfig, sentence, std::forward<Args>(args)...);
}

std::int64_t size(const JsonObject& json, std::string_view key, std::int64_t max = kMaxSize) {
  return json.required_int(key, 1, max);
}

// A switch of which this program knows one position only.
void require_string(const JsonObject& json, std::string_view key, std::string_view only) {
  const auto value = json.optional_string(key);
  if (value && *value != only) {
    unsupported("{}: {} {} is not supported, only {} is", json.name(), key, in_quotes(*value),
                in_quotes(only));
  }
}

void check_architecture(const JsonObject& json) {
  const std::string type = json.required_string("model_type");
  if (type != kModelType) {
    unsupported("{}: model_type {} is not supported, only {} ({}) is", json.name(), in_quotes(type),
                in_quotes(kModelType), kArchitecture);
  }
  const std::vector<std::string> architectures = json.optional_strings("architectures");
  if (!architectures.empty() &&
      std::find(architectures.begin(), architectures.end(), kArchitecture) == architectures.end()) {
    unsupported("{}: architecture {} is not supported, only {} is", json.name(),
                in_quotes(architectures.front()), in_quotes(kArchitecture));
  }
  if (const auto quantization = json.optional_object("quantization_config")) {
    unsupported(
        "{}: the weights are quantised (quant_method {}), which is not supported; use the folder "
        "with the original weights",
        json.name(), in_quotes(quantization->optional_string("quant_method").value_or("unknown")));
  }
  require_string(json, "hidden_act", "silu");
  if (json.optional_bool("mlp_bias").value_or(false)) {
    unsupported("{}: mlp_bias true is not supported, only false is", json.name());
  }
}

void read_attention(const JsonObject& json, ModelConfig& config) {
  config.n_heads = size(json, "num_attention_heads");
  const std::int64_t n_kv_heads =
      json.optional_int("num_key_value_heads", 1, kMaxSize).value_or(config.n_heads);
  if (n_kv_heads != config.n_heads) {
    unsupported(
        "{}: num_key_value_heads {} differs from num_attention_heads {}, which is not supported",
        json.name(), n_kv_heads, config.n_heads);
  }
  // null and absence differ here: null means one query projection, and what absence means depends
  // on the program that reads it.
  if (!json.mentions("q_lora_rank")) {
    contradictory("{}: \"q_lora_rank\" is missing; give its size, or null for one query projection",
                  json.name());
  }
  config.q_lora_rank = json.optional_int("q_lora_rank", 1, kMaxSize);
  config.kv_lora_rank = size(json, "kv_lora_rank");
  config.qk_nope_dim = size(json, "qk_nope_head_dim");
  config.qk_rope_dim = size(json, "qk_rope_head_dim");
  config.rope.dim = config.qk_rope_dim;
  if (config.qk_rope_dim % 2 != 0) {
    contradictory("{}: \"qk_rope_head_dim\" must be even, because rotations act on pairs, not {}",
                  json.name(), config.qk_rope_dim);
  }
  config.v_dim = size(json, "v_head_dim");
  config.attention_bias = json.optional_bool("attention_bias").value_or(false);
}

void read_groups(const JsonObject& json, ModelConfig& config) {
  config.n_groups = json.required_int("n_group", 1, config.n_routed_experts);
  if (config.n_routed_experts % config.n_groups != 0) {
    contradictory("{}: \"n_group\" {} does not divide \"n_routed_experts\" {}", json.name(),
                  config.n_groups, config.n_routed_experts);
  }
  config.top_k_groups = json.required_int("topk_group", 1, kMaxExperts);
  if (config.top_k_groups > config.n_groups) {
    contradictory("{}: \"topk_group\" {} is more than \"n_group\" {}", json.name(),
                  config.top_k_groups, config.n_groups);
  }
  const std::int64_t reachable = config.n_routed_experts / config.n_groups * config.top_k_groups;
  if (config.n_experts_per_token > reachable) {
    contradictory(
        "{}: \"num_experts_per_tok\" {} is more than the {} experts of \"topk_group\" {} groups",
        json.name(), config.n_experts_per_token, reachable, config.top_k_groups);
  }
}

void read_router(const JsonObject& json, ModelConfig& config) {
  require_string(json, "scoring_func", "softmax");
  const std::string method = json.optional_string("topk_method").value_or("greedy");
  if (method == to_string(ops::TopKMethod::kGroupLimitedGreedy)) {
    config.topk_method = ops::TopKMethod::kGroupLimitedGreedy;
    read_groups(json, config);
  } else if (method != to_string(ops::TopKMethod::kGreedy)) {
    unsupported("{}: topk_method {} is not supported, only {} and {} are", json.name(),
                in_quotes(method), in_quotes(to_string(ops::TopKMethod::kGreedy)),
                in_quotes(to_string(ops::TopKMethod::kGroupLimitedGreedy)));
  }
  config.norm_topk_prob = json.optional_bool("norm_topk_prob").value_or(false);
  config.routed_scaling_factor = json.optional_positive("routed_scaling_factor").value_or(1.0);
}

void read_experts(const JsonObject& json, ModelConfig& config) {
  const std::int64_t frequency = json.optional_int("moe_layer_freq", 1, kMaxLayers).value_or(1);
  if (frequency != 1) {
    unsupported("{}: moe_layer_freq {} is not supported, only 1 is", json.name(), frequency);
  }
  config.moe_intermediate_size = size(json, "moe_intermediate_size");
  config.n_routed_experts = size(json, "n_routed_experts", kMaxExperts);
  if (!json.mentions("n_shared_experts")) {
    contradictory("{}: \"n_shared_experts\" is missing; give their number, or 0 for none",
                  json.name());
  }
  config.n_shared_experts = json.optional_int("n_shared_experts", 0, kMaxExperts).value_or(0);
  config.n_experts_per_token = size(json, "num_experts_per_tok", kMaxExperts);
  if (config.n_experts_per_token > config.n_routed_experts) {
    contradictory("{}: \"num_experts_per_tok\" {} is more than \"n_routed_experts\" {}",
                  json.name(), config.n_experts_per_token, config.n_routed_experts);
  }
  read_router(json, config);
}

void read_layers(const JsonObject& json, ModelConfig& config) {
  config.n_layers = size(json, "num_hidden_layers", kMaxLayers);
  config.first_dense_layers = std::min(
      json.optional_int("first_k_dense_replace", 0, kMaxSize).value_or(0), config.n_layers);
  if (config.first_dense_layers > 0) config.intermediate_size = size(json, "intermediate_size");
  if (config.has_moe()) read_experts(json, config);
}

// mscale and mscale_all_dim mean the same to every reader when both are given, and when neither is
// (1 and 0). With one alone, readers disagree about the other.
void read_mscale(const JsonObject& rope, std::string_view section, ops::YarnParameters& yarn) {
  const double mscale = rope.optional_number("mscale").value_or(0);
  const double all_dim = rope.optional_number("mscale_all_dim").value_or(0);
  if (mscale < 0) rope.refuse("mscale", "a number from 0 up");
  if (all_dim < 0) rope.refuse("mscale_all_dim", "a number from 0 up");
  const bool neither = (mscale == 0 || mscale == 1) && all_dim == 0;
  if (!neither && (mscale == 0 || all_dim == 0)) {
    contradictory("{}: \"{}.mscale\" and \"{}.mscale_all_dim\" must be given together", rope.name(),
                  section, section);
  }
  if (neither) return;
  yarn.mscale = mscale;
  yarn.mscale_all_dim = all_dim;
}

ops::YarnParameters read_yarn(const JsonObject& rope, std::string_view section) {
  if (rope.has("attention_factor")) {
    unsupported("{}: \"{}.attention_factor\" is not supported, mscale and mscale_all_dim are",
                rope.name(), section);
  }
  if (!rope.optional_bool("truncate").value_or(true)) {
    unsupported("{}: \"{}.truncate\" false is not supported, only true is", rope.name(), section);
  }
  ops::YarnParameters yarn;
  yarn.factor = rope.required_positive("factor");
  yarn.original_context = rope.required_int("original_max_position_embeddings", 1, kMaxPositions);
  yarn.beta_fast = rope.optional_positive("beta_fast").value_or(yarn.beta_fast);
  yarn.beta_slow = rope.optional_positive("beta_slow").value_or(yarn.beta_slow);
  if (yarn.beta_fast < yarn.beta_slow) {
    contradictory("{}: \"{}.beta_fast\" {} is less than \"{}.beta_slow\" {}", rope.name(), section,
                  yarn.beta_fast, section, yarn.beta_slow);
  }
  read_mscale(rope, section, yarn);
  return yarn;
}

// "type" is the older name of "rope_type"; files written in between have both.
std::string read_rope_type(const JsonObject& rope, std::string_view section) {
  const auto type = rope.optional_string("rope_type");
  const auto old_type = rope.optional_string("type");
  if (type && old_type && *type != *old_type) {
    contradictory("{}: \"{}.rope_type\" is {}, but \"{}.type\" is {}", rope.name(), section,
                  in_quotes(*type), section, in_quotes(*old_type));
  }
  if (type) return *type;
  if (old_type) return *old_type;
  // Without a type only theta has a meaning.
  if (rope.has("factor")) {
    contradictory("{}: \"{}\" has a factor, but neither \"rope_type\" nor \"type\"", rope.name(),
                  section);
  }
  return "default";
}

// A setting that changes the rotation must not be passed over in silence.
void refuse_unknown_rope_keys(const JsonObject& rope, std::string_view section) {
  constexpr std::array<std::string_view, 12> kKnown = {
      "type",      "rope_type",       "rope_theta", "factor",   "original_max_position_embeddings",
      "beta_fast", "beta_slow",       "mscale",     "truncate", "mscale_all_dim",
      "finetuned", "attention_factor"};
  for (const std::string& key : rope.keys()) {
    if (std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) {
      unsupported("{}: {} has the key {}, which is not supported", rope.name(), section,
                  in_quotes(key));
    }
  }
}

double read_theta(const JsonObject& json) {
  const double theta = json.required_number("rope_theta");
  // YaRN divides by its logarithm.
  if (!(theta > 1)) json.refuse("rope_theta", "a number greater than 1");
  return theta;
}

void read_rope(const JsonObject& json, ModelConfig& config) {
  if (json.has("rope_theta")) config.rope.theta = read_theta(json);
  if (json.has("rope_scaling") && json.has("rope_parameters")) {
    contradictory("{}: has both \"rope_scaling\" and \"rope_parameters\"; remove one of them",
                  json.name());
  }
  const std::string_view section = json.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  const auto rope = json.optional_object(section);
  if (!rope) return;

  const std::string type = read_rope_type(*rope, section);
  if (type != "yarn" && type != "default") {
    unsupported("{}: rope type {} is not supported, only \"yarn\" and \"default\" are", json.name(),
                in_quotes(type));
  }
  refuse_unknown_rope_keys(*rope, section);
  if (rope->has("rope_theta")) {
    const double theta = read_theta(*rope);
    if (json.has("rope_theta") && theta != config.rope.theta) {
      contradictory("{}: \"rope_theta\" is {}, but \"{}.rope_theta\" is {}", json.name(),
                    config.rope.theta, section, theta);
    }
    config.rope.theta = theta;
  }
  if (type == "yarn") config.rope.yarn = read_yarn(*rope, section);
}

void read_tokens(const JsonObject& json, ModelConfig& config) {
  const std::int64_t last = config.vocab_size - 1;
  config.bos_token_id = json.optional_int("bos_token_id", 0, last);
  config.eos_token_ids = json.int_or_list("eos_token_id", 0, last);
}

// In floating point, where a product that is too large is only large.
double parameter_count(const ModelConfig& c) {
  const auto product = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  const double query = product(c.q_lora_rank.value_or(c.hidden_size), c.n_heads * c.qk_dim()) +
                       product(c.q_lora_rank.value_or(0), c.hidden_size);
  const double key_value = product(c.hidden_size, c.kv_lora_rank + c.qk_rope_dim) +
                           product(c.kv_lora_rank, c.n_heads * (c.qk_nope_dim + c.v_dim));
  const double output = product(c.hidden_size, c.n_heads * c.v_dim);
  const double dense = 3 * product(c.hidden_size, c.intermediate_size);
  const double experts = product(c.n_routed_experts + c.n_shared_experts, c.moe_intermediate_size) *
                         3 * static_cast<double>(c.hidden_size);
  return 2 * product(c.vocab_size, c.hidden_size) +
         static_cast<double>(c.n_layers) * (query + key_value + output) +
         static_cast<double>(c.first_dense_layers) * dense +
         static_cast<double>(c.n_layers - c.first_dense_layers) * experts;
}

ModelConfig read_config(const JsonObject& json) {
  check_architecture(json);
  ModelConfig config;
  config.vocab_size = size(json, "vocab_size", kMaxVocab);
  config.hidden_size = size(json, "hidden_size");
  config.max_positions =
      json.optional_int("max_position_embeddings", 1, kMaxPositions).value_or(2048);
  config.rms_norm_eps = json.optional_positive("rms_norm_eps").value_or(1e-6);
  config.tie_word_embeddings = json.optional_bool("tie_word_embeddings").value_or(false);
  read_attention(json, config);
  read_rope(json, config);
  read_layers(json, config);
  read_tokens(json, config);
  if (const double count = parameter_count(config); count > kMaxParameters) {
    contradictory("{}: the sizes make a model of {:.1e} parameters, more than any machine holds",
                  json.name(), count);
  }
  return config;
}

}  // namespace

ModelConfig ModelConfig::load(const std::filesystem::path& folder) {
  return read_config(JsonObject::read(folder / "config.json", ErrorCode::kBadConfig));
}

ModelConfig ModelConfig::parse(std::string_view json_text, const std::string& name_for_errors) {
  return read_config(JsonObject::parse(json_text, name_for_errors, ErrorCode::kBadConfig));
}

ops::RouterParameters ModelConfig::router() const {
  return {.top_k = n_experts_per_token,
          .method = topk_method,
          .n_groups = n_groups,
          .top_k_groups = top_k_groups,
          .normalise = norm_topk_prob,
          .scale = static_cast<float>(routed_scaling_factor)};
}

}  // namespace tessera
