#include "model/step_cost.h"

#include <numeric>

namespace tessera {

namespace {

using ops::StepPart;

double as_double(std::int64_t n) {
  return static_cast<double>(n);
}

class Counter {
 public:
  Counter(const ModelConfig& config, const KvCache& cache, std::span<const SegmentSize> segments,
          StepCost& cost)
      : c_(config), cache_(cache), segments_(segments), cost_(cost) {
    for (const SegmentSize& s : segments) {
      tokens_ += s.tokens;
      logits_ += s.n_logits;
      (s.expanded ? expanded_ : absorbed_) += s.expanded ? s.before + s.tokens : s.tokens;
    }
  }

  void model(const ModelWeights& w, std::int64_t n_experts) {
    for (const LayerWeights& layer : w.layers) {
      vector(StepPart::kNorm, layer.input_norm);
      attention(layer.attention);
      vector(StepPart::kNorm, layer.post_attention_norm);
      if (layer.router.empty()) {
        product(StepPart::kDense, layer.dense.gate_up, tokens_);
        product(StepPart::kDense, layer.dense.down, tokens_);
      } else {
        product(StepPart::kRouter, layer.router, tokens_);
        experts(layer);
      }
    }
    // All experts have one size.
    for (const LayerWeights& layer : w.layers) {
      if (layer.experts.empty()) continue;
      const ops::FeedForward& one = layer.experts.front();
      cost_.of(StepPart::kExpertsUp).bytes +=
          as_double(n_experts) * static_cast<double>(one.gate_up.bytes());
      cost_.of(StepPart::kExpertsDown).bytes +=
          as_double(n_experts) * static_cast<double>(one.down.bytes());
      break;
    }
    if (logits_ == 0) return;
    vector(StepPart::kNorm, w.final_norm);
    product(StepPart::kHead, w.head, logits_);
  }

 private:
  void vector(StepPart part, const ops::Weight& w) {
    cost_.of(part).bytes += static_cast<double>(w.bytes());
  }

  void operations(StepPart part, const ops::PackedLinear& w, std::int64_t rows) {
    if (w.empty()) return;
    const double products = as_double(w.n()) * as_double(w.k()) * (w.is_gate_up() ? 2 : 1);
    cost_.of(part).operations[static_cast<std::size_t>(tile::dot_of(w.layout()))] +=
        2 * products * as_double(rows);
  }

  void product(StepPart part, const ops::PackedLinear& w, std::int64_t rows) {
    cost_.of(part).bytes += static_cast<double>(w.bytes());
    operations(part, w, rows);
  }

  void attention(const AttentionWeights& w) {
    product(StepPart::kQuery, w.q, tokens_);
    product(StepPart::kQuery, w.q_a, tokens_);
    product(StepPart::kQuery, w.q_b, tokens_);
    product(StepPart::kProlog, w.kv_a, tokens_);
    product(StepPart::kProlog, w.kv_b, tokens_);
    products(w.key_to_latent, absorbed_);
    products(w.latent_to_value, absorbed_ + expanded_);
    products(w.latent_to_key, expanded_);
    product(StepPart::kOutput, w.o, tokens_);
    scores_and_sums();
  }

  // Into and out of the latent space, or from there to keys and values.
  void products(const std::vector<ops::PackedLinear>& heads, std::int64_t rows) {
    if (rows == 0) return;
    for (const ops::PackedLinear& head : heads) product(StepPart::kAbsorb, head, rows);
  }

  // Each token meets those before it and itself.
  void scores_and_sums() {
    const auto dot = cache_.dtype() == DType::kBF16 ? tile::Dot::kBF16 : tile::Dot::kF32;
    PartCost& cost = cost_.of(StepPart::kAttention);
    for (const SegmentSize& s : segments_) {
      const bool latent = cache_.form() == KvCacheForm::kLatent && !s.expanded;
      const std::int64_t key = latent ? c_.kv_lora_rank + c_.qk_rope_dim : c_.qk_dim();
      const std::int64_t value = latent ? c_.kv_lora_rank : c_.v_dim;
      const double pairs = as_double(s.tokens) * as_double(s.before) +
                           as_double(s.tokens) * as_double(s.tokens + 1) / 2;
      cost.operations[static_cast<std::size_t>(dot)] +=
          2 * pairs * as_double(c_.n_heads) * as_double(key + value);
      cost.bytes += as_double(s.before + s.tokens) * static_cast<double>(cache_.row_bytes());
    }
  }

  void experts(const LayerWeights& w) {
    product(StepPart::kExpertsUp, w.shared.gate_up, tokens_);
    product(StepPart::kExpertsDown, w.shared.down, tokens_);
    const std::int64_t choices = tokens_ * c_.n_experts_per_token;
    operations(StepPart::kExpertsUp, w.experts.front().gate_up, choices);
    operations(StepPart::kExpertsDown, w.experts.front().down, choices);
  }

  const ModelConfig& c_;
  const KvCache& cache_;
  std::span<const SegmentSize> segments_;
  StepCost& cost_;
  std::int64_t tokens_ = 0;
  std::int64_t logits_ = 0;
  std::int64_t absorbed_ = 0;  // tokens whose queries go into the latent space and back
  std::int64_t expanded_ = 0;  // tokens whose latents become keys and values
};

}  // namespace

double PartCost::all_operations() const {
  return std::accumulate(operations.begin(), operations.end(), 0.0);
}

PartCost& PartCost::operator+=(const PartCost& other) {
  bytes += other.bytes;
  for (std::size_t i = 0; i < operations.size(); ++i) operations[i] += other.operations[i];
  return *this;
}

PartCost StepCost::total() const {
  PartCost all;
  for (const PartCost& part : parts) all += part;
  return all;
}

StepCost step_cost(const ModelConfig& config, const ModelWeights& weights, const KvCache& cache,
                   std::span<const SegmentSize> segments, std::int64_t n_experts) {
  StepCost cost;
  Counter(config, cache, segments, cost).model(weights, n_experts);
  return cost;
}

}  // namespace tessera
