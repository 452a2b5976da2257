#include "model/graph/record_step.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/fail.h"
#include "ops/linear/record.h"
#include "ops/mha_attention/mha_attention.h"
#include "ops/mla_attention/record.h"
#include "ops/moe/record.h"

namespace tessera {

namespace {

using graph::Spread;
using ops::Copies;
using ops::RecordedHeads;
using ops::RecordedRows;
using ops::RowCount;
using ops::StepPart;

// Parts of rows that different launches work on side by side.
constexpr graph::Parts kFront = 1;    // of a query its unrotated values, of a row its latent
constexpr graph::Parts kRotated = 2;  // the rest

// Up to here one worker does what is small beside the products that the others start on.
constexpr std::int64_t kRowsOfOneWorker = 16;

// to = from, for n values of every head.
struct CopyHeadsBody {
  RecordedHeads from, to;
  std::int64_t n;

  std::int64_t tasks(int) const noexcept { return *from.rows.count.now; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const ops::Heads a = from.at(worker);
    const ops::Heads b = to.at(worker);
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t h = 0; h < a.heads; ++h) std::copy_n(a.at(row, h), n, b.at(row, h));
    }
  }
  graph::Work work() const noexcept { return {}; }
};

// to += bias, in every row.
struct AddBiasBody {
  const float* bias;
  RecordedRows to;

  std::int64_t tasks(int) const noexcept { return *to.count.now; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const ops::Rows rows = to.at(worker);
    for (std::int64_t row = begin; row < end; ++row) {
      float* values = rows.row(row).data();
      for (std::int64_t i = 0; i < rows.columns; ++i) values[i] += bias[i];
    }
  }
  graph::Work work() const noexcept { return {}; }
};

struct WriteLatentBody {
  KvCache* cache;
  std::int64_t layer;
  const std::int32_t* slot;
  RecordedRows latent;

  std::int64_t tasks(int) const noexcept { return *latent.count.now; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const ops::Rows rows = latent.at(worker);
    for (std::int64_t row = begin; row < end; ++row) {
      cache->write_slot(layer, slot[row], rows.row(row).data());
    }
  }
  graph::Work work() const noexcept { return {}; }
};

struct WriteExpandedBody {
  KvCache* cache;
  std::int64_t layer;
  const std::int32_t* slot;
  RecordedRows heads, k_pe;

  std::int64_t tasks(int) const noexcept { return *heads.count.now; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const ops::Rows values = heads.at(worker);
    const ops::Rows keys = k_pe.at(worker);
    for (std::int64_t row = begin; row < end; ++row) {
      cache->write_expanded_slot(layer, slot[row], values.row(row).data(), keys.row(row).data());
    }
  }
  graph::Work work() const noexcept { return {}; }
};

// Row i of `to` is row rows[i] of `from`.
struct SelectBody {
  RecordedRows from, to;
  const std::int32_t* rows;

  std::int64_t tasks(int) const noexcept { return *to.count.now; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const ops::Rows a = from.at(worker);
    const ops::Rows b = to.at(worker);
    for (std::int64_t i = begin; i < end; ++i) {
      std::ranges::copy(a.row(rows[i]), b.row(i).begin());
    }
  }
  graph::Work work() const noexcept { return {}; }
};

class StepRecorder {
 public:
  StepRecorder(graph::Recorder& recorder, const StepParts& parts)
      : recorder_(recorder), p_(parts), c_(parts.config), rows_(parts.inputs.rows()) {}

  RecordedStep record() {
    RecordedStep step;
    graph::BufferInfo info;
    info.name = "x";
    info.bytes = static_cast<std::size_t>(rows_.max * c_.hidden_size) * sizeof(float);
    info.from_outside = true;
    x_.memory = recorder_.buffer(info);
    x_.count = rows_;
    x_.columns = x_.stride = c_.hidden_size;
    step.x = x_;
    for (std::int64_t i = 0; i < c_.n_layers; ++i) {
      layer_ = i;
      const LayerWeights& layer = p_.weights.layers[static_cast<std::size_t>(i)];
      attention(layer.attention, norm("input norm", layer.input_norm));
      feed_forward(layer, norm("post-attention norm", layer.post_attention_norm));
    }
    step.logits = head();
    return step;
  }

 private:
  std::string name(std::string_view what) const { return fmt::format("layer {} {}", layer_, what); }

  void in(StepPart part) { recorder_.set_part(to_string(part)); }

  // Small work beside a product: one worker's, where there is little of it.
  Spread beside() const { return rows_.max <= kRowsOfOneWorker ? Spread::kOne : Spread::kShared; }

  template <typename Body>
  void launch(std::string_view what, std::string_view op, Spread spread,
              std::vector<graph::Use> reads, std::vector<graph::Use> writes, Body body) {
    recorder_.launch({name(what), op, {}, {}, spread, std::move(reads), std::move(writes)},
                     std::move(body));
  }

  // The residual stream, normed: by every worker for itself where it is small.
  RecordedRows norm(std::string_view what, const ops::Weight& weight) {
    in(StepPart::kNorm);
    const bool every = ops::every_worker_computes(rows_, c_.hidden_size);
    const RecordedRows normed = ops::record_rows(recorder_, name("normed"), rows_, c_.hidden_size,
                                                 every ? Copies::kPerWorker : Copies::kOne);
    p_.kernels.record_rms_norm(
        recorder_,
        {.name = name(what), .op = {}, .spread = every ? Spread::kEvery : Spread::kShared}, x_,
        weight.floats(), static_cast<float>(c_.rms_norm_eps), normed);
    return normed;
  }

  void add_bias(std::string_view what, const ops::Weight& bias, const RecordedRows& to,
                Spread spread) {
    if (bias.empty()) return;
    launch(what, "bias", spread, {to.use()}, {to.use()}, AddBiasBody{bias.floats(), to});
  }

  // x += attention(normed).
  void attention(const AttentionWeights& w, const RecordedRows& normed) {
    const std::int64_t row_dim = c_.kv_lora_rank + c_.qk_rope_dim;
    const graph::BufferId cache = recorder_.external(name("kv cache"));
    const RecordedHeads q = query(w, normed);
    const bool native = !native_prolog_is_replaced(normed, cache);
    RecordedRows latent;
    if (native) latent = project_latent(w, normed, row_dim);
    rotate(q);
    if (native) keep(w, latent, cache);

    const RecordedRows values =
        ops::record_rows(recorder_, name("values"), rows_, c_.n_heads * c_.v_dim);
    if (p_.cache.form() == KvCacheForm::kLatent) {
      attend_absorbed(w, q, {values, c_.n_heads, c_.v_dim}, cache);
    } else {
      in(StepPart::kAttention);
      ops::record_mha_attention(recorder_,
                                {name("attention"), q.rows, p_.cache.expanded_layer(layer_), cache,
                                 p_.inputs.visible(), c_.attention_scale(), values});
    }
    in(StepPart::kOutput);
    ops::record_linear(recorder_, name("output"), values, w.o, x_, ops::Epilogue::kAdd);
    add_bias("output bias", w.o_bias, x_, Spread::kShared);
  }

  // The query of every head, not rotated yet.
  RecordedHeads query(const AttentionWeights& w, const RecordedRows& normed) {
    in(StepPart::kQuery);
    const RecordedRows q = ops::record_rows(recorder_, name("q"), rows_, c_.n_heads * c_.qk_dim());
    if (w.q_a.empty()) {
      ops::record_linear(recorder_, name("query"), normed, w.q, q);
      return {q, c_.n_heads, c_.qk_dim()};
    }
    const RecordedRows q_a = ops::record_rows(recorder_, name("q_a"), rows_, w.q_a.n());
    ops::record_linear(recorder_, name("query a"), normed, w.q_a, q_a);
    add_bias("query a bias", w.q_a_bias, q_a, beside());
    p_.kernels.record_rms_norm(recorder_,
                               {.name = name("query a norm"), .op = {}, .spread = beside()}, q_a,
                               w.q_a_norm.floats(), kLatentNormEps, q_a);
    ops::record_linear(recorder_, name("query b"), q_a, w.q_b, q);
    return {q, c_.n_heads, c_.qk_dim()};
  }

  void rotate(const RecordedHeads& q) {
    in(StepPart::kQuery);
    const RecordedRows rotated =
        q.rows.columns_from(c_.qk_nope_dim, q.rows.columns - c_.qk_nope_dim, kRotated);
    p_.kernels.record_rope(
        recorder_, {.name = name("query rotation"), .op = {}, .spread = beside()},
        {rotated, c_.n_heads, c_.qk_dim(), p_.inputs.cos(), p_.inputs.sin(), p_.inputs.half()});
  }

  // The KV prolog as one kernel, where one was chosen.
  bool native_prolog_is_replaced(const RecordedRows& normed, graph::BufferId cache) {
    in(StepPart::kProlog);
    ops::RecordedProlog call;
    call.name = name("prolog");
    call.hidden = normed;
    call.cos = p_.inputs.cos();
    call.sin = p_.inputs.sin();
    call.half = p_.inputs.half();
    call.slot = p_.inputs.slot();
    call.block = p_.inputs.block();
    call.place = p_.inputs.place();
    call.cache = cache;
    p_.cache.direct_to(layer_, call.outputs);
    return p_.kernels.record_mla_prolog(recorder_, layer_, call);
  }

  RecordedRows project_latent(const AttentionWeights& w, const RecordedRows& normed,
                              std::int64_t row_dim) {
    const RecordedRows latent = ops::record_rows(recorder_, name("latent"), rows_, row_dim);
    ops::record_linear(recorder_, name("prolog kv_a"), normed, w.kv_a, latent);
    return latent;
  }

  // Into the cache goes what it keeps of the new tokens.
  void keep(const AttentionWeights& w, const RecordedRows& projected, graph::BufferId cache) {
    in(StepPart::kProlog);
    const Spread spread = beside();
    const RecordedRows latent = projected.columns_from(0, c_.kv_lora_rank, kFront);
    const RecordedRows k_pe = projected.columns_from(c_.kv_lora_rank, c_.qk_rope_dim, kRotated);
    add_bias("prolog bias", w.kv_a_bias, projected, spread);
    p_.kernels.record_rms_norm(recorder_, {.name = name("prolog norm"), .op = {}, .spread = spread},
                               latent, w.kv_a_norm.floats(), kLatentNormEps, latent);
    p_.kernels.record_rope(recorder_, {.name = name("prolog rotation"), .op = {}, .spread = spread},
                           {k_pe, 1, 0, p_.inputs.cos(), p_.inputs.sin(), p_.inputs.half()});
    if (p_.cache.form() == KvCacheForm::kLatent) {
      launch("cache", "write", spread, {projected.use()}, {{cache}},
             WriteLatentBody{&p_.cache, layer_, p_.inputs.slot(), projected});
      return;
    }
    const RecordedRows heads = ops::record_rows(recorder_, name("keys and values"), rows_,
                                                c_.n_heads * (c_.qk_nope_dim + c_.v_dim));
    ops::record_linear(recorder_, name("prolog kv_b"), latent, w.kv_b, heads);
    launch("cache", "write", Spread::kShared, {heads.use(), k_pe.use()}, {{cache}},
           WriteExpandedBody{&p_.cache, layer_, p_.inputs.slot(), heads, k_pe});
  }

  // values = what every head reads, in absorbed form: see ops/mla_attention.
  void attend_absorbed(const AttentionWeights& w, const RecordedHeads& q,
                       const RecordedHeads& values, graph::BufferId cache) {
    in(StepPart::kAbsorb);
    const std::int64_t row_dim = c_.kv_lora_rank + c_.qk_rope_dim;
    const RecordedHeads absorbed{
        ops::record_rows(recorder_, name("absorbed"), rows_, c_.n_heads * row_dim), c_.n_heads,
        row_dim};
    const auto part = [](RecordedHeads heads, std::int64_t first, graph::Parts parts) {
      heads.rows = heads.rows.columns_from(first, heads.rows.columns - first, parts);
      return heads;
    };
    const RecordedHeads rotated = part(q, c_.qk_nope_dim, kRotated);
    const RecordedHeads tail = part(absorbed, c_.kv_lora_rank, kRotated);
    launch("absorbed rotation", "copy", beside(), {rotated.rows.use()}, {tail.rows.use()},
           CopyHeadsBody{rotated, tail, c_.qk_rope_dim});
    ops::record_head_products(recorder_, name("absorb"), part(q, 0, kFront), w.key_to_latent,
                              part(absorbed, 0, kFront));
    in(StepPart::kAttention);
    const bool recorded = ops::record_mla_attention(
        recorder_, {name("attention"), absorbed, p_.cache.layer(layer_), cache, p_.inputs.visible(),
                    p_.cache.capacity_tokens(), c_.attention_scale(), w.latent_to_value, values});
    if (!recorded) fail(ErrorCode::kUnsupported, "mla_attention native cannot be recorded");
  }

  void feed_forward(const LayerWeights& w, const RecordedRows& normed) {
    if (w.router.empty()) {
      in(StepPart::kDense);
      return ops::record_feed_forward(recorder_, name("dense"), normed, w.dense, x_);
    }
    ops::record_moe(recorder_, {.name = name("experts"),
                                .x = normed,
                                .router = &w.router,
                                .routing = c_.router(),
                                .experts = w.experts,
                                .shared = &w.shared,
                                .y = x_,
                                .experts_read = p_.inputs.experts_read()});
  }

  RecordedRows head() {
    in(StepPart::kNorm);
    const RowCount n = p_.inputs.logits();
    const bool every = ops::every_worker_computes(n, c_.hidden_size);
    const RecordedRows selected = ops::record_rows(recorder_, "selected", n, c_.hidden_size,
                                                   every ? Copies::kPerWorker : Copies::kOne);
    const Spread spread = every ? Spread::kEvery : Spread::kShared;
    recorder_.launch({"selection", "copy", {}, {}, spread, {x_.use()}, {selected.use()}},
                     SelectBody{x_, selected, p_.inputs.selected()});
    p_.kernels.record_rms_norm(recorder_, {.name = "final norm", .op = {}, .spread = spread},
                               selected, p_.weights.final_norm.floats(),
                               static_cast<float>(c_.rms_norm_eps), selected);
    in(StepPart::kHead);
    graph::BufferInfo info;
    info.name = "logits";
    info.bytes = static_cast<std::size_t>(n.max * c_.vocab_size) * sizeof(float);
    info.to_outside = true;
    RecordedRows logits;
    logits.memory = recorder_.buffer(info);
    logits.count = n;
    logits.columns = logits.stride = c_.vocab_size;
    ops::record_linear(recorder_, "head", selected, p_.weights.head, logits);
    return logits;
  }

  graph::Recorder& recorder_;
  const StepParts& p_;
  const ModelConfig& c_;
  const RowCount rows_;
  RecordedRows x_;
  std::int64_t layer_ = 0;
};

}  // namespace

RecordedStep record_step(graph::Recorder& recorder, const StepParts& parts) {
  return StepRecorder(recorder, parts).record();
}

}  // namespace tessera
