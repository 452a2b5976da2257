#include "model/weight_plan.h"

#include <cstring>

#include <fmt/format.h>

#include "base/buffer.h"
#include "model/weight_layout.h"

namespace tessera {

namespace {

class Planner {
 public:
  Planner(const ModelConfig& config, WeightFormat format, KvCacheForm form, WeightPlan& plan)
      : c_(config), format_(format), form_(form), plan_(plan) {}

  void model(ModelWeights& w) {
    tensor(std::string(WeightPlan::kEmbedding), {c_.vocab_size, c_.hidden_size});
    w.layers.resize(static_cast<std::size_t>(c_.n_layers));
    for (std::int64_t i = 0; i < c_.n_layers; ++i) {
      layer(fmt::format("model.layers.{}.", i), i, w.layers[static_cast<std::size_t>(i)]);
    }
    vector("model.norm.weight", w.final_norm, c_.hidden_size);
    MatrixPlan head{
        &w.head, layout_of(format_, WeightRole::kHead), c_.vocab_size, c_.hidden_size, {}};
    if (c_.tie_word_embeddings) {
      head.tensors = {std::string(WeightPlan::kEmbedding)};
    } else {
      head.tensors = {"lm_head.weight"};
      tensor(head.tensors[0], {c_.vocab_size, c_.hidden_size});
    }
    plan_.matrices.push_back(std::move(head));
  }

 private:
  void layer(const std::string& prefix, std::int64_t index, LayerWeights& w) {
    vector(prefix + "input_layernorm.weight", w.input_norm, c_.hidden_size);
    attention(prefix + "self_attn.", w.attention);
    vector(prefix + "post_attention_layernorm.weight", w.post_attention_norm, c_.hidden_size);
    const std::string mlp = prefix + "mlp.";
    if (!c_.is_moe(index)) {
      feed_forward(mlp, w.dense, c_.intermediate_size, WeightRole::kFeedForward);
      return;
    }
    matrix(mlp + "gate.weight", w.router, c_.n_routed_experts, c_.hidden_size,
           tile::cpu::PanelLayout::kF32);
    w.experts.resize(static_cast<std::size_t>(c_.n_routed_experts));
    for (std::size_t e = 0; e < w.experts.size(); ++e) {
      feed_forward(fmt::format("{}experts.{}.", mlp, e), w.experts[e], c_.moe_intermediate_size,
                   WeightRole::kExpert);
    }
    if (c_.n_shared_experts > 0) {
      feed_forward(mlp + "shared_experts.", w.shared,
                   c_.moe_intermediate_size * c_.n_shared_experts, WeightRole::kFeedForward);
    }
  }

  void attention(const std::string& prefix, AttentionWeights& w) {
    const tile::cpu::PanelLayout layout = layout_of(format_, WeightRole::kAttention);
    const std::int64_t q_dim = c_.n_heads * c_.qk_dim();
    const std::int64_t latent_dim = c_.kv_lora_rank + c_.qk_rope_dim;
    if (c_.q_lora_rank) {
      matrix(prefix + "q_a_proj.weight", w.q_a, *c_.q_lora_rank, c_.hidden_size, layout);
      bias(prefix + "q_a_proj.bias", w.q_a_bias, *c_.q_lora_rank);
      vector(prefix + "q_a_layernorm.weight", w.q_a_norm, *c_.q_lora_rank);
      matrix(prefix + "q_b_proj.weight", w.q_b, q_dim, *c_.q_lora_rank, layout);
    } else {
      matrix(prefix + "q_proj.weight", w.q, q_dim, c_.hidden_size, layout);
    }
    matrix(prefix + "kv_a_proj_with_mqa.weight", w.kv_a, latent_dim, c_.hidden_size, layout);
    bias(prefix + "kv_a_proj_with_mqa.bias", w.kv_a_bias, latent_dim);
    vector(prefix + "kv_a_layernorm.weight", w.kv_a_norm, c_.kv_lora_rank);
    expansion(prefix + "kv_b_proj.weight", w, layout);
    matrix(prefix + "o_proj.weight", w.o, c_.hidden_size, c_.n_heads * c_.v_dim, layout);
    bias(prefix + "o_proj.bias", w.o_bias, c_.hidden_size);
  }

  // kv_b: whole, or cut by head and use.
  void expansion(const std::string& name, AttentionWeights& w, tile::cpu::PanelLayout layout) {
    const std::int64_t head = c_.qk_nope_dim + c_.v_dim;
    if (form_ == KvCacheForm::kExpanded) {
      matrix(name, w.kv_b, c_.n_heads * head, c_.kv_lora_rank, layout);
      return;
    }
    tensor(name, {c_.n_heads * head, c_.kv_lora_rank});
    const auto n_heads = static_cast<std::size_t>(c_.n_heads);
    w.key_to_latent.resize(n_heads);
    w.latent_to_value.resize(n_heads);
    w.latent_to_key.resize(n_heads);
    for (std::size_t h = 0; h < n_heads; ++h) {
      const std::int64_t first = static_cast<std::int64_t>(h) * head;
      plan_.matrices.push_back({&w.key_to_latent[h],
                                layout,
                                c_.kv_lora_rank,
                                c_.qk_nope_dim,
                                {name},
                                first,
                                true,
                                false});
      plan_.matrices.push_back({&w.latent_to_value[h],
                                layout,
                                c_.v_dim,
                                c_.kv_lora_rank,
                                {name},
                                first + c_.qk_nope_dim,
                                false,
                                false});
    }
    // Behind the others, which every decoded token reads.
    for (std::size_t h = 0; h < n_heads; ++h) {
      plan_.matrices.push_back({&w.latent_to_key[h],
                                layout,
                                c_.qk_nope_dim,
                                c_.kv_lora_rank,
                                {name},
                                static_cast<std::int64_t>(h) * head,
                                false,
                                h + 1 == n_heads});
    }
  }

  void feed_forward(const std::string& prefix, ops::FeedForward& ffn, std::int64_t n,
                    WeightRole role) {
    const tile::cpu::PanelLayout layout = layout_of(format_, role);
    MatrixPlan both{&ffn.gate_up,
                    layout,
                    n,
                    c_.hidden_size,
                    {prefix + "gate_proj.weight", prefix + "up_proj.weight"}};
    for (const std::string& name : both.tensors) tensor(name, {n, c_.hidden_size});
    plan_.matrices.push_back(std::move(both));
    matrix(prefix + "down_proj.weight", ffn.down, c_.hidden_size, n, layout);
  }

  void matrix(const std::string& name, ops::PackedLinear& target, std::int64_t n, std::int64_t k,
              tile::cpu::PanelLayout layout) {
    tensor(name, {n, k});
    plan_.matrices.push_back({&target, layout, n, k, {name}});
  }

  void vector(const std::string& name, ops::Weight& target, std::int64_t n) {
    tensor(name, {n});
    plan_.vectors.push_back({&target, n, name});
  }

  void bias(const std::string& name, ops::Weight& target, std::int64_t n) {
    if (c_.attention_bias) vector(name, target, n);
  }

  void tensor(const std::string& name, std::vector<std::int64_t> shape) {
    plan_.tensors.push_back({name, std::move(shape)});
  }

  const ModelConfig& c_;
  WeightFormat format_;
  KvCacheForm form_;
  WeightPlan& plan_;
};

}  // namespace

WeightPlan::WeightPlan(const ModelConfig& config, WeightFormat format, KvCacheForm form,
                       ModelWeights& weights) {
  Planner(config, format, form, *this).model(weights);
  const auto place = [this](auto& part) {
    part.offset = arena_bytes;
    arena_bytes +=
        (part.bytes() + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
  };
  for (MatrixPlan& matrix : matrices) place(matrix);
  for (VectorPlan& vector : vectors) place(vector);
}

void WeightPlan::attach(const std::byte* arena) const {
  for (const MatrixPlan& m : matrices) {
    *m.target = ops::PackedLinear(m.layout, m.n, m.k, m.n_weights(), arena + m.offset);
  }
  for (const VectorPlan& v : vectors) {
    *v.target = ops::Weight(DType::kF32, 1, v.n);
    std::memcpy(v.target->row(0), arena + v.offset, v.bytes());
  }
}

}  // namespace tessera
