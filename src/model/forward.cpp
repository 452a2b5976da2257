#include "model/forward.h"

#include <algorithm>
#include <cassert>

#include "ops/expanded_attention/expanded_attention.h"
#include "ops/linear/linear.h"
#include "ops/mha_attention/mha_attention.h"
#include "ops/mla_attention/mla_attention.h"
#include "ops/moe/moe.h"
#include "ops/router/router.h"

namespace tessera {

using ops::StepPart;
using ops::StepScope;

namespace {

void add(const ops::ConstRows& x, const ops::Rows& to) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::size_t i = 0; i < x.row(r).size(); ++i) to.row(r)[i] += x.row(r)[i];
  }
}

void add_bias(const ops::Weight& bias, const ops::Rows& to) {
  if (!bias.empty()) add({bias.floats(), to.rows, to.columns, 0}, to);
}

}  // namespace

// T tokens; every array is fp32.
struct ForwardPass::Activations {
  ops::Rows x;         // [T, hidden]: the residual stream
  ops::Rows normed;    // [T, hidden]
  ops::Rows cos, sin;  // [T, rope / 2]
  ops::Rows q_a;       // [T, q_lora_rank]
  ops::Rows q;         // [T, heads * (nope + rope)]
  ops::Rows latent;    // [T, kv_lora_rank + rope]
  ops::Rows absorbed;  // [T, heads * (kv_lora_rank + rope)]: the query in the space of the latent
  ops::Rows attended;  // [T, heads * kv_lora_rank]
  ops::Rows expanded;  // [T, heads * (nope + v)]: per head its key, then its value
  ops::Rows values;    // [T, heads * v]
  ops::Rows scores;    // [T, experts]
  ops::Rows selected;  // [logit rows, hidden]
  ops::Rows logits;    // [logit rows, vocab]
  std::vector<ops::VisibleTokens> visible;  // [T]: what each token attends to
  std::vector<std::int64_t> slots;          // [T]: where each token stands in the cache
};

ForwardPass::ForwardPass(const ModelConfig& config, const ModelWeights& weights,
                         ops::Executor& executor, ModelKernels& kernels)
    : config_(config),
      weights_(weights),
      executor_(executor),
      kernels_(kernels),
      frequencies_(config.rope),
      attention_scale_(config.attention_scale()),
      router_(config.router()) {}

ForwardPass::Activations ForwardPass::arrange(std::int64_t n_tokens, std::int64_t n_logits) {
  const ModelConfig& c = config_;
  const bool expand = kernels_.kv_cache() == KvCacheForm::kExpanded;
  const std::int64_t absorbed_heads = expand ? 0 : c.n_heads;
  const std::int64_t expanded_heads = expand ? c.n_heads : 0;
  Activations a;
  struct Array {
    ops::Rows* rows;
    std::int64_t n_rows, columns;
  };
  const Array arrays[] = {
      {&a.x, n_tokens, c.hidden_size},
      {&a.normed, n_tokens, c.hidden_size},
      {&a.cos, n_tokens, c.qk_rope_dim / 2},
      {&a.sin, n_tokens, c.qk_rope_dim / 2},
      {&a.q_a, n_tokens, c.q_lora_rank.value_or(0)},
      {&a.q, n_tokens, c.n_heads * (c.qk_dim())},
      {&a.latent, n_tokens, c.kv_lora_rank + c.qk_rope_dim},
      {&a.absorbed, n_tokens, absorbed_heads * (c.kv_lora_rank + c.qk_rope_dim)},
      {&a.attended, n_tokens, absorbed_heads * c.kv_lora_rank},
      {&a.expanded, n_tokens, expanded_heads * (c.qk_nope_dim + c.v_dim)},
      {&a.values, n_tokens, c.n_heads * c.v_dim},
      {&a.scores, n_tokens, c.n_routed_experts},
      {&a.selected, n_logits, c.hidden_size},
      {&a.logits, n_logits, c.vocab_size},
  };
  constexpr std::int64_t kLine = Buffer::kAlignment / sizeof(float);
  const auto padded = [](const Array& array) {
    return (array.n_rows * array.columns + kLine - 1) / kLine * kLine;
  };
  std::int64_t total = 0;
  for (const Array& array : arrays) total += padded(array);
  const auto bytes = static_cast<std::size_t>(total) * sizeof(float);
  if (memory_.size() < bytes) memory_ = Buffer(bytes);

  float* next = memory_.as<float>().data();
  for (const Array& array : arrays) {
    *array.rows = ops::Rows(next, array.n_rows, array.columns);
    next += padded(array);
  }
  return a;
}

ops::ConstRows ForwardPass::run(std::span<const Segment> segments, KvCache& cache,
                                const LayerObserver& observe) {
  assert(cache.form() == kernels_.kv_cache());
  check_step(segments, config_, cache);
  Activations a = arrange(count_tokens(segments), count_logits(segments));
  for (const Segment& s : segments) cache.extend(s.sequence, std::ssize(s.tokens));

  ops::StepProfile* profile = executor_.profile();
  {
    const StepScope scope(profile, StepPart::kEmbedding);
    embed(segments, a.x);
  }
  std::int64_t row = 0;
  for (const Segment& s : segments) {
    const std::int64_t first = cache.length(s.sequence) - std::ssize(s.tokens);
    for (std::int64_t i = 0; i < std::ssize(s.tokens); ++i, ++row) {
      frequencies_.cos_sin(first + i, a.cos.row(row), a.sin.row(row));
      a.visible.push_back(cache.visible(s.sequence, first + i + 1));
      a.slots.push_back(cache.slot(s.sequence, first + i));
    }
  }

  for (std::int64_t i = 0; i < config_.n_layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(i)];
    norm(a.x, layer.input_norm, a.normed);
    attention(layer.attention, i, segments, cache, a);
    norm(a.x, layer.post_attention_norm, a.normed);
    feed_forward(layer, a);
    if (observe) observe(i, a.x);
  }

  std::int64_t selected = 0;
  row = 0;
  for (const Segment& s : segments) {
    row += std::ssize(s.tokens);
    for (std::int64_t i = s.n_logits; i > 0; --i, ++selected) {
      std::ranges::copy(a.x.row(row - i), a.selected.row(selected).begin());
    }
  }
  norm(a.selected, weights_.final_norm, a.selected);
  const StepScope scope(profile, StepPart::kHead);
  linear(a.selected, weights_.head, a.logits, executor_);
  return a.logits;
}

void ForwardPass::norm(const ops::ConstRows& x, const ops::Weight& w, const ops::Rows& y) {
  const StepScope scope(executor_.profile(), StepPart::kNorm);
  kernels_.rms_norm(x, w.floats(), static_cast<float>(config_.rms_norm_eps), y);
}

void ForwardPass::embed(std::span<const Segment> segments, const ops::Rows& x) const {
  std::int64_t row = 0;
  for (const Segment& s : segments) {
    for (std::int32_t token : s.tokens) {
      weights_.embedding.row(token, x.row(row++));
    }
  }
}

// x += attention(normed), in the form of the cache.
void ForwardPass::attention(const AttentionWeights& w, std::int64_t layer,
                            std::span<const Segment> segments, KvCache& cache, Activations& a) {
  query(w, a);
  keep(w, layer, segments, cache, a);
  if (cache.form() == KvCacheForm::kLatent) {
    attend_latents(w, layer, segments, cache, a);
  } else {
    attend_expanded(layer, cache, a);
  }
  const StepScope scope(executor_.profile(), StepPart::kOutput);
  linear(a.values, w.o, a.x, executor_, ops::Epilogue::kAdd);
  add_bias(w.o_bias, a.x);
}

// values = what every head reads. Each segment in the form of its own length; those in absorbed
// form that stand side by side together.
void ForwardPass::attend_latents(const AttentionWeights& w, std::int64_t layer,
                                 std::span<const Segment> segments, const KvCache& cache,
                                 Activations& a) {
  const ops::LatentPages pages = cache.layer(layer);
  std::int64_t first = 0;  // row that is not attended to yet
  std::int64_t row = 0;
  for (const Segment& s : segments) {
    const std::int64_t n = std::ssize(s.tokens);
    if (kernels_.expands(n)) {
      attend_absorbed(w, pages, first, row - first, a);
      attend_expanding(w, pages, row, n, a);
      first = row + n;
    }
    row += n;
  }
  attend_absorbed(w, pages, first, row - first, a);
}

// Rows [row, row + n) in absorbed form: see ops/mla_attention.
void ForwardPass::attend_absorbed(const AttentionWeights& w, const ops::LatentPages& cache,
                                  std::int64_t row, std::int64_t n, Activations& a) {
  if (n == 0) return;
  const StepScope scope(executor_.profile(), StepPart::kAbsorb);
  const ModelConfig& c = config_;
  const auto heads_of = [&](const ops::Rows& rows, std::int64_t dim) {
    return ops::Heads{rows.rows_from(row, n).data, n, c.n_heads, rows.stride, dim};
  };
  const ops::Heads q = heads_of(a.q, c.qk_dim());
  const ops::Heads absorbed = heads_of(a.absorbed, c.kv_lora_rank + c.qk_rope_dim);
  const ops::Heads attended = heads_of(a.attended, c.kv_lora_rank);
  const ops::Heads values = heads_of(a.values, c.v_dim);

  // Per head: its unrotated query through W_UK, beside its rotated query.
  std::vector<ops::LinearJob> into_latent(w.key_to_latent.size());
  std::vector<ops::LinearJob> out_of_latent(w.latent_to_value.size());
  for (std::int64_t h = 0; h < c.n_heads; ++h) {
    const auto i = static_cast<std::size_t>(h);
    into_latent[i].x = q.head(h, c.qk_nope_dim);
    into_latent[i].w = &w.key_to_latent[i];
    into_latent[i].y = absorbed.head(h, c.kv_lora_rank);
    out_of_latent[i].x = attended.head(h, c.kv_lora_rank);
    out_of_latent[i].w = &w.latent_to_value[i];
    out_of_latent[i].y = values.head(h, c.v_dim);
    for (std::int64_t r = 0; r < n; ++r) {
      std::copy_n(q.at(r, h) + c.qk_nope_dim, c.qk_rope_dim, absorbed.at(r, h) + c.kv_lora_rank);
    }
  }
  linear(into_latent, executor_);
  {
    const StepScope inner(executor_.profile(), StepPart::kAttention);
    const auto visible =
        std::span(a.visible).subspan(static_cast<std::size_t>(row), static_cast<std::size_t>(n));
    mla_attention(absorbed, cache, visible, attention_scale_, attended, executor_);
  }
  linear(out_of_latent, executor_);
}

// The same for a segment, over keys and values that are made of the latents on the way: see
// ops/expanded_attention.
void ForwardPass::attend_expanding(const AttentionWeights& w, const ops::LatentPages& cache,
                                   std::int64_t row, std::int64_t n, Activations& a) {
  const StepScope scope(executor_.profile(), StepPart::kAttention);
  const ModelConfig& c = config_;
  const ops::Rows q = a.q.rows_from(row, n);
  const ops::Rows values = a.values.rows_from(row, n);
  const ops::VisibleTokens& visible = a.visible[static_cast<std::size_t>(row + n - 1)];
  expanded_attention({q.data, n, c.n_heads, q.stride, c.qk_dim()}, cache, visible,
                     {w.latent_to_key, w.latent_to_value}, attention_scale_,
                     {values.data, n, c.n_heads, values.stride, c.v_dim}, executor_);
}

// The same over keys and values that the cache holds.
void ForwardPass::attend_expanded(std::int64_t layer, const KvCache& cache, Activations& a) {
  const StepScope scope(executor_.profile(), StepPart::kAttention);
  const ModelConfig& c = config_;
  const ops::Heads q{a.q.data, a.q.rows, c.n_heads, a.q.stride, c.qk_dim()};
  const ops::Heads values{a.values.data, a.values.rows, c.n_heads, a.values.stride, c.v_dim};
  mha_attention(q, cache.expanded_layer(layer), a.visible, attention_scale_, values, executor_);
}

// q = the query of every head, its last qk_rope_dim values rotated.
void ForwardPass::query(const AttentionWeights& w, Activations& a) {
  const StepScope scope(executor_.profile(), StepPart::kQuery);
  const ModelConfig& c = config_;
  if (w.q_a.empty()) {
    linear(a.normed, w.q, a.q, executor_);
  } else {
    linear(a.normed, w.q_a, a.q_a, executor_);
    add_bias(w.q_a_bias, a.q_a);
    kernels_.rms_norm(a.q_a, w.q_a_norm.floats(), kLatentNormEps, a.q_a);
    linear(a.q_a, w.q_b, a.q, executor_);
  }
  const ops::Heads rotated{a.q.data + c.qk_nope_dim, a.q.rows, c.n_heads, a.q.stride, c.qk_dim()};
  kernels_.rope(rotated, a.cos, a.sin);
}

// The KV prolog: into the cache goes what it keeps of the new tokens. See ops/mla_prolog; this is
// the native sequence, with the chosen norm and rotation.
void ForwardPass::keep(const AttentionWeights& w, std::int64_t layer,
                       std::span<const Segment> segments, KvCache& cache, Activations& a) {
  const StepScope scope(executor_.profile(), StepPart::kProlog);
  const ModelConfig& c = config_;
  ops::MlaPrologCall call;
  call.hidden = a.normed;
  call.cos = a.cos;
  call.sin = a.sin;
  call.slots = a.slots;
  cache.direct_to(layer, call);
  if (kernels_.mla_prolog(layer, call)) return;

  linear(a.normed, w.kv_a, a.latent, executor_);
  add_bias(w.kv_a_bias, a.latent);
  const ops::Rows latent = a.latent.columns_from(0, c.kv_lora_rank);
  const ops::Rows k_pe = a.latent.columns_from(c.kv_lora_rank, c.qk_rope_dim);
  kernels_.rms_norm(latent, w.kv_a_norm.floats(), kLatentNormEps, latent);
  kernels_.rope({k_pe.data, k_pe.rows, 1, k_pe.stride, 0}, a.cos, a.sin);
  const bool expand = cache.form() == KvCacheForm::kExpanded;
  if (expand) linear(latent, w.kv_b, a.expanded, executor_);

  std::int64_t row = 0;
  for (const Segment& s : segments) {
    const std::int64_t n = std::ssize(s.tokens);
    const std::int64_t first = cache.length(s.sequence) - n;
    if (expand) {
      cache.write_expanded(layer, s.sequence, first, a.expanded.rows_from(row, n),
                           k_pe.rows_from(row, n));
    } else {
      cache.write(layer, s.sequence, first, a.latent.rows_from(row, n));
    }
    row += n;
  }
}

// x += the layer's feed-forward network of normed: dense, or shared plus routed experts.
void ForwardPass::feed_forward(const LayerWeights& w, Activations& a) {
  if (w.router.empty()) {
    ops::feed_forward(a.normed, w.dense, a.x, executor_);
    return;
  }
  const auto n_choices = static_cast<std::size_t>(a.x.rows * router_.top_k);
  std::vector<std::int32_t> experts(n_choices);
  std::vector<float> expert_weights(n_choices);
  {
    const StepScope scope(executor_.profile(), StepPart::kRouter);
    linear(a.normed, w.router, a.scores, executor_);
    route(a.scores, router_, experts, expert_weights);
  }
  moe(a.normed, w.experts, w.shared, experts, expert_weights, a.x, executor_);
}

}  // namespace tessera
