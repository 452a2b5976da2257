#include "model/synth/gguf_tensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/fail.h"
#include "io/quote.h"
#include "model/synth/statistics.h"

namespace tessera {

namespace {

using Part = PlannedGgufTensor::Part;

struct Name {
  std::string_view checkpoint;
  std::string_view gguf;
};

constexpr std::array kModelNames = {
    Name{"model.embed_tokens", "token_embd"},
    Name{"model.norm", "output_norm"},
    Name{"lm_head", "output"},
};

// After "model.layers.N." there, "blk.N." here.
constexpr std::array kLayerNames = {
    Name{"input_layernorm", "attn_norm"},
    Name{"self_attn.q_proj", "attn_q"},
    Name{"self_attn.q_a_proj", "attn_q_a"},
    Name{"self_attn.q_a_layernorm", "attn_q_a_norm"},
    Name{"self_attn.q_b_proj", "attn_q_b"},
    Name{"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    Name{"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    Name{"self_attn.o_proj", "attn_output"},
    Name{"post_attention_layernorm", "ffn_norm"},
    Name{"mlp.gate_proj", "ffn_gate"},
    Name{"mlp.up_proj", "ffn_up"},
    Name{"mlp.down_proj", "ffn_down"},
    Name{"mlp.gate", "ffn_gate_inp"},
    Name{"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    Name{"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    Name{"mlp.shared_experts.down_proj", "ffn_down_shexp"},
};

// After "model.layers.N.mlp.experts.E.".
constexpr std::array kExpertNames = {
    Name{"gate_proj", "ffn_gate_exps"},
    Name{"up_proj", "ffn_up_exps"},
    Name{"down_proj", "ffn_down_exps"},
};

constexpr std::string_view kLayer = "model.layers.";
constexpr std::string_view kExpert = "mlp.experts.";
constexpr std::string_view kKeysAndValues = "self_attn.kv_b_proj";

template <std::size_t n>
std::optional<std::string_view> find(const std::array<Name, n>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name, &Name::checkpoint);
  if (found == names.end()) return std::nullopt;
  return found->gguf;
}

// "12" and "mlp.gate" of "12.mlp.gate".
std::pair<std::string_view, std::string_view> split_number(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  return {text.substr(0, point), text.substr(std::min(point + 1, text.size()))};
}

class Planner {
 public:
  Planner(const ModelConfig& config, GgmlType type) : config_(config), type_(type) {}

  std::vector<PlannedGgufTensor> plan() {
    for (const TensorShape& tensor : checkpoint_tensors(config_)) place(tensor);
    return std::move(tensors_);
  }

 private:
  void place(const TensorShape& tensor) {
    constexpr std::string_view kWeight = ".weight";
    std::string_view name = tensor.name;
    if (!name.ends_with(kWeight)) refuse(tensor);
    name.remove_suffix(kWeight.size());
    if (!name.starts_with(kLayer)) {
      add(gguf_name("", find(kModelNames, name), tensor), tensor);
      return;
    }
    const auto [layer, rest] = split_number(name.substr(kLayer.size()));
    const std::string block = fmt::format("blk.{}.", layer);
    if (rest == kKeysAndValues) {
      add_keys_and_values(block, tensor);
    } else if (rest.starts_with(kExpert)) {
      const auto [expert, projection] = split_number(rest.substr(kExpert.size()));
      add_expert(gguf_name(block, find(kExpertNames, projection), tensor), tensor);
    } else {
      add(gguf_name(block, find(kLayerNames, rest), tensor), tensor);
    }
  }

  [[noreturn]] static void refuse(const TensorShape& tensor) {
    fail(ErrorCode::kUnsupported, "GGUF files of this architecture have no place for the tensor {}",
         in_quotes(tensor.name));
  }

  static std::string gguf_name(const std::string& block, std::optional<std::string_view> name,
                               const TensorShape& tensor) {
    if (!name) refuse(tensor);
    return fmt::format("{}{}.weight", block, *name);
  }

  GgmlType type_of(const std::string& name, const std::vector<std::int64_t>& shape) const {
    if (shape.size() == 1 || name.ends_with("ffn_gate_inp.weight")) return GgmlType::kF32;
    const auto block = static_cast<std::int64_t>(block_values(type_));
    return shape.back() % block == 0 ? type_ : GgmlType::kBF16;
  }

  void add(const std::string& name, const TensorShape& tensor) {
    tensors_.push_back({{name, tensor.shape, type_of(name, tensor.shape)}, {tensor}});
  }

  // The experts of a projection come one after another, but those of the projections in turn.
  void add_expert(const std::string& name, const TensorShape& tensor) {
    const auto known = std::ranges::find_if(
        tensors_, [&](const PlannedGgufTensor& planned) { return planned.layout.name == name; });
    if (known != tensors_.end()) {
      known->sources.push_back(tensor);
      ++known->layout.shape[0];
      return;
    }
    const std::vector<std::int64_t> shape = {1, tensor.shape[0], tensor.shape[1]};
    tensors_.push_back({{name, shape, type_of(name, shape)}, {tensor}});
  }

  void add_keys_and_values(const std::string& block, const TensorShape& tensor) {
    const std::vector<std::int64_t> keys = {config_.n_heads, config_.kv_lora_rank,
                                            config_.qk_nope_dim};
    const std::vector<std::int64_t> values = {config_.n_heads, config_.v_dim, config_.kv_lora_rank};
    const std::string keys_name = block + "attn_k_b.weight";
    const std::string values_name = block + "attn_v_b.weight";
    tensors_.push_back({{keys_name, keys, type_of(keys_name, keys)}, {tensor}, Part::kKeys});
    tensors_.push_back(
        {{values_name, values, type_of(values_name, values)}, {tensor}, Part::kValues});
  }

  const ModelConfig& config_;
  GgmlType type_;
  std::vector<PlannedGgufTensor> tensors_;
};

// kv_b_proj has, for each head, the rows of its keys, then those of its values.
void add_heads(const RandomStream& stream, const PlannedGgufTensor& tensor, const ModelConfig& c,
               std::vector<Piece>& pieces) {
  const auto latent = static_cast<std::size_t>(c.kv_lora_rank);
  const auto key_rows = static_cast<std::size_t>(c.qk_nope_dim);
  const auto value_rows = static_cast<std::size_t>(c.v_dim);
  for (std::size_t head = 0; head < static_cast<std::size_t>(c.n_heads); ++head) {
    const std::size_t first = head * (key_rows + value_rows) * latent;
    if (tensor.part == Part::kKeys) {
      pieces.push_back({stream, first, key_rows * latent, tensor.layout.type, key_rows});
    } else {
      pieces.push_back(
          {stream, first + key_rows * latent, value_rows * latent, tensor.layout.type});
    }
  }
}

}  // namespace

std::vector<PlannedGgufTensor> plan_gguf_tensors(const ModelConfig& config, GgmlType type) {
  return Planner(config, type).plan();
}

std::vector<Piece> pieces_of(const PlannedGgufTensor& tensor, const ModelConfig& config,
                             std::uint64_t seed) {
  std::vector<Piece> pieces;
  for (const TensorShape& source : tensor.sources) {
    for (const StreamRun& run : value_streams(source, config, seed)) {
      if (tensor.part == Part::kAll) {
        add_pieces(run.stream, run.n, tensor.layout.type, pieces);
      } else {
        add_heads(run.stream, tensor, config, pieces);
      }
    }
  }
  return pieces;
}

}  // namespace tessera
