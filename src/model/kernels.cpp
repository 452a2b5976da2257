#include "model/kernels.h"

#include <utility>

#include <fmt/format.h>

#include <tessera/error.h>

namespace tessera {

namespace {

constexpr ops::RopeLayout kLayout = ops::RopeLayout::kInterleaved;  // of DeepSeek's weights

constexpr std::string_view kNative = "native";

}  // namespace

std::string native_instead(std::string_view op, std::string_view name, std::string_view why) {
  return fmt::format("{} {} {}; the native operators run instead", op, name, why);
}

ModelKernels::ModelKernels(const KernelChoice& choice, const ModelConfig& config,
                           const ModelWeights& weights, ops::Executor& executor, WarnFn warn)
    : executor_(executor),
      warn_(std::move(warn)),
      kv_cache_(choice.kv_cache),
      rms_norm_{.op = "rms_norm", .name = choice.rms_norm->name},
      rope_{.op = "rope", .name = choice.rope->name},
      mla_prolog_{.op = "mla_prolog",
                  .name = choice.mla_prolog == nullptr ? kNative : choice.mla_prolog->name},
      rms_norm_implementation_(choice.rms_norm),
      rope_implementation_(choice.rope),
      mla_prolog_implementation_(choice.mla_prolog) {
  if (choice.mla_prolog == nullptr) return;
  if (!run_chosen(mla_prolog_, {}, [&] { make_prologs(config, weights); })) prologs_.clear();
  mla_prolog_.chosen_ran = mla_prolog_.native_ran = false;  // nothing did yet
}

void ModelKernels::make_prologs(const ModelConfig& c, const ModelWeights& weights) {
  const ops::MlaDims dims{c.hidden_size, c.n_heads,     c.kv_lora_rank,
                          c.qk_nope_dim, c.qk_rope_dim, c.v_dim};
  for (const LayerWeights& layer : weights.layers) {
    const AttentionWeights& w = layer.attention;
    prolog_weights_.push_back({.dims = dims,
                               .kv_a = w.kv_a.view(),
                               .kv_a_bias = w.kv_a_bias.empty() ? nullptr : w.kv_a_bias.floats(),
                               .norm = w.kv_a_norm.floats(),
                               .eps = kLatentNormEps,
                               .kv_b = w.kv_b.view()});
    prologs_.push_back(mla_prolog_implementation_->create(prolog_weights_.back(), executor_));
  }
}

bool ModelKernels::all_native() const {
  return rms_norm_.name == kNative && rope_.name == kNative && mla_prolog_.name == kNative;
}

// Runs what was chosen and returns true, or says why not and returns false.
template <typename Run>
bool ModelKernels::run_chosen(Operator& op, const std::string& unsupported, Run&& run) {
  if (unsupported.empty() && !op.failed) {
    try {
      run();
      op.chosen_ran = true;
      return true;
    } catch (const Error& error) {
      op.failed = true;
      warn(native_instead(op.op, op.name, fmt::format("failed ({})", error.what())));
    }
  } else if (!op.failed && !op.warned) {
    op.warned = true;
    warn(native_instead(op.op, op.name, unsupported));
  }
  op.native_ran = true;
  return false;
}

void ModelKernels::rms_norm(const ops::ConstRows& x, const float* weight, float eps,
                            const ops::Rows& y) {
  const ops::RmsNormImplementation& chosen = *rms_norm_implementation_;
  if (!run_chosen(rms_norm_, chosen.unsupported(x.rows, x.columns),
                  [&] { chosen.run(x, weight, eps, y, executor_); })) {
    ops::kRmsNormNative.run(x, weight, eps, y, executor_);
  }
}

void ModelKernels::rope(const ops::Heads& x, const ops::ConstRows& cos, const ops::ConstRows& sin) {
  const ops::RopeImplementation& chosen = *rope_implementation_;
  if (!run_chosen(rope_, chosen.unsupported(2 * cos.columns, kLayout),
                  [&] { chosen.run(x, cos, sin, kLayout, executor_); })) {
    ops::kRopeNative.run(x, cos, sin, kLayout, executor_);
  }
}

bool ModelKernels::mla_prolog(std::int64_t layer, const ops::MlaPrologCall& call) {
  const auto index = static_cast<std::size_t>(layer);
  if (index >= prologs_.size()) {  // none was chosen, or it could not be made
    mla_prolog_.native_ran = true;
    return false;
  }
  return run_chosen(mla_prolog_,
                    mla_prolog_implementation_->unsupported(prolog_weights_[index], call),
                    [&] { prologs_[index]->run(call, executor_); });
}

std::string ModelKernels::Operator::names() const {
  if (chosen_ran && native_ran && name != kNative) return fmt::format("{}+{}", name, kNative);
  return std::string(native_ran && !chosen_ran ? kNative : name);
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
