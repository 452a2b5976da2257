#include "model/kernels.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include <tessera/error.h>

#include "base/fail.h"

namespace tessera {

namespace {

constexpr ops::RopeLayout kLayout = ops::RopeLayout::kInterleaved;  // of DeepSeek's weights

constexpr std::string_view kNative = "native";

void require_recordable(std::string_view op, std::string_view name, bool recordable) {
  if (recordable) return;
  fail(ErrorCode::kUnsupported, "{} {} cannot be recorded", op, name);
}

}  // namespace

std::string native_instead(std::string_view op, std::string_view name, std::string_view why) {
  return fmt::format("{} {} {}; the native operators run instead", op, name, why);
}

ModelKernels::ModelKernels(const KernelChoice& choice, const ModelConfig& config,
                           const ModelWeights& weights, ops::Executor& executor, WarnFn warn)
    : executor_(executor),
      warn_(std::move(warn)),
      kv_cache_(choice.kv_cache),
      least_expanded_tokens_(least_expanded_tokens(
          choice.kv_cache == KvCacheForm::kLatent ? choice.attention : AttentionForm::kAbsorbed)),
      rms_norm_{.op = "rms_norm", .name = choice.rms_norm->name},
      rope_{.op = "rope", .name = choice.rope->name},
      mla_prolog_{.op = "mla_prolog",
                  .name = choice.mla_prolog == nullptr ? kNative : choice.mla_prolog->name},
      rms_norm_implementation_(choice.rms_norm),
      rope_implementation_(choice.rope),
      mla_prolog_implementation_(choice.mla_prolog) {
  if (choice.mla_prolog == nullptr) return;
  const ops::MlaDims dims{config.hidden_size, config.n_heads,     config.kv_lora_rank,
                          config.qk_nope_dim, config.qk_rope_dim, config.v_dim};
  for (const LayerWeights& layer : weights.layers) {
    const AttentionWeights& w = layer.attention;
    prolog_weights_.push_back({.dims = dims,
                               .kv_a = w.kv_a,
                               .kv_a_bias = w.kv_a_bias.empty() ? nullptr : w.kv_a_bias.floats(),
                               .norm = w.kv_a_norm.floats(),
                               .eps = kLatentNormEps,
                               .kv_b = w.kv_b});
  }
  if (choice.mla_prolog == &ops::kMlaPrologAuto) return;
  run_chosen(mla_prolog_, mla_prolog_.name, {}, [&] { prologs_of(*choice.mla_prolog); });
  mla_prolog_.ran.clear();  // nothing did yet
}

const ModelKernels::LayerPrologs& ModelKernels::prologs_of(
    const ops::MlaPrologImplementation& implementation) {
  const auto made = prologs_.find(&implementation);
  if (made != prologs_.end()) return made->second;
  LayerPrologs prologs;
  for (const ops::MlaPrologWeights& layer : prolog_weights_) {
    prologs.push_back(implementation.create(layer, executor_));
  }
  return prologs_.emplace(&implementation, std::move(prologs)).first->second;
}

bool ModelKernels::all_native() const {
  return rms_norm_.name == kNative && rope_.name == kNative && mla_prolog_.name == kNative;
}

// Whether an implementation is to run; says once why not. Notes what does.
bool ModelKernels::can_run(Operator& op, std::string_view name, const std::string& unsupported) {
  const bool can = unsupported.empty() && !op.failed;
  if (!can && !op.failed && !op.warned) {
    op.warned = true;
    warn(native_instead(op.op, name, unsupported));
  }
  op.note(can ? name : kNative);
  return can;
}

// Runs what was chosen and returns true, or says why not and returns false.
template <typename Run>
bool ModelKernels::run_chosen(Operator& op, std::string_view name, const std::string& unsupported,
                              Run&& run) {
  if (unsupported.empty() && !op.failed) {
    try {
      run();
      op.note(name);
      return true;
    } catch (const Error& error) {
      op.failed = true;
      warn(native_instead(op.op, name, fmt::format("failed ({})", error.what())));
    }
  }
  return can_run(op, name, unsupported);
}

void ModelKernels::rms_norm(const ops::ConstRows& x, const float* weight, float eps,
                            const ops::Rows& y) {
  const ops::RmsNormImplementation& chosen = *rms_norm_implementation_;
  if (!run_chosen(rms_norm_, chosen.name, chosen.unsupported(x.rows, x.columns),
                  [&] { chosen.run(x, weight, eps, y, executor_); })) {
    ops::kRmsNormNative.run(x, weight, eps, y, executor_);
  }
}

void ModelKernels::rope(const ops::Heads& x, const ops::ConstRows& cos, const ops::ConstRows& sin) {
  const ops::RopeImplementation& chosen = *rope_implementation_;
  if (!run_chosen(rope_, chosen.name, chosen.unsupported(2 * cos.columns, kLayout),
                  [&] { chosen.run(x, cos, sin, kLayout, executor_); })) {
    ops::kRopeNative.run(x, cos, sin, kLayout, executor_);
  }
}

const ops::MlaPrologImplementation* ModelKernels::prolog_for(std::int64_t layer,
                                                             const ops::MlaPrologCall& call) const {
  const ops::MlaPrologImplementation* chosen = mla_prolog_implementation_;
  if (chosen == &ops::kMlaPrologAuto) {
    chosen = &ops::fastest_mla_prolog(prolog_weights_[static_cast<std::size_t>(layer)], call,
                                      executor_.n_threads());
  }
  return chosen == &ops::kMlaPrologBaseline ? nullptr : chosen;
}

bool ModelKernels::mla_prolog(std::int64_t layer, const ops::MlaPrologCall& call) {
  const ops::MlaPrologImplementation* chosen = prolog_for(layer, call);
  if (chosen == nullptr) {
    mla_prolog_.note(kNative);
    return false;
  }
  const auto index = static_cast<std::size_t>(layer);
  return run_chosen(mla_prolog_, chosen->name, chosen->unsupported(prolog_weights_[index], call),
                    [&] { prologs_of(*chosen)[index]->run(call, executor_); });
}

void ModelKernels::record_rms_norm(graph::Recorder& recorder, graph::LaunchInfo info,
                                   const ops::RecordedRows& x, const float* weight, float eps,
                                   const ops::RecordedRows& y) {
  const ops::RmsNormImplementation& chosen = *rms_norm_implementation_;
  if (!can_run(rms_norm_, chosen.name, chosen.unsupported(x.count.max, x.columns))) {
    return ops::kRmsNormNative.record(recorder, std::move(info), x, weight, eps, y);
  }
  require_recordable(rms_norm_.op, chosen.name, chosen.record != nullptr);
  chosen.record(recorder, std::move(info), x, weight, eps, y);
}

void ModelKernels::record_rope(graph::Recorder& recorder, graph::LaunchInfo info,
                               const ops::RecordedRotation& call) {
  const ops::RopeImplementation& chosen = *rope_implementation_;
  if (!can_run(rope_, chosen.name, chosen.unsupported(2 * call.half, kLayout))) {
    return ops::kRopeNative.record(recorder, std::move(info), call, kLayout);
  }
  require_recordable(rope_.op, chosen.name, chosen.record != nullptr);
  chosen.record(recorder, std::move(info), call, kLayout);
}

bool ModelKernels::record_mla_prolog(graph::Recorder& recorder, std::int64_t layer,
                                     const ops::RecordedProlog& call) {
  ops::MlaPrologCall probe = call.outputs;
  probe.hidden = call.hidden.at(0);
  const ops::MlaPrologImplementation* chosen = prolog_for(layer, probe);
  if (chosen == nullptr) {
    mla_prolog_.note(kNative);
    return false;
  }
  const auto index = static_cast<std::size_t>(layer);
  const std::string unsupported = chosen->unsupported(prolog_weights_[index], probe);
  if (!can_run(mla_prolog_, chosen->name, unsupported)) return false;
  const bool recorded = prologs_of(*chosen)[index]->record(recorder, call);
  require_recordable(mla_prolog_.op, chosen->name, recorded);
  return true;
}

bool ModelKernels::same_prolog(const ops::MlaPrologCall& a, const ops::MlaPrologCall& b) const {
  return prolog_for(0, a) == prolog_for(0, b);
}

void ModelKernels::Operator::note(std::string_view implementation) {
  if (std::ranges::find(ran, implementation) != ran.end()) return;
  const bool native_ran = !ran.empty() && ran.back() == kNative;
  ran.insert(ran.end() - (native_ran ? 1 : 0), implementation);
}

std::string ModelKernels::Operator::names() const {
  return ran.empty() ? std::string(name) : fmt::format("{}", fmt::join(ran, "+"));
}

KernelNames ModelKernels::names() const {
  return {rms_norm_.names(), rope_.names(), mla_prolog_.names(), std::string(to_string(kv_cache_))};
}

bool ModelKernels::mark_warm(std::int64_t n_sequences, std::int64_t q_len) {
  return warm_steps_.emplace(n_sequences, q_len).second;
}

void ModelKernels::warn(std::string_view sentence) const {
  if (warn_) warn_(sentence);
}

}  // namespace tessera
