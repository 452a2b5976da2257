#include "model/kernels.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

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
  } else if (!op.failed && !op.warned) {
    op.warned = true;
    warn(native_instead(op.op, name, unsupported));
  }
  op.note(kNative);
  return false;
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

bool ModelKernels::mla_prolog(std::int64_t layer, const ops::MlaPrologCall& call) {
  const ops::MlaPrologImplementation* chosen = mla_prolog_implementation_;
  const auto index = static_cast<std::size_t>(layer);
  if (chosen == &ops::kMlaPrologAuto) {
    chosen = &ops::fastest_mla_prolog(prolog_weights_[index], call, executor_.n_threads());
  }
  if (chosen == nullptr || chosen == &ops::kMlaPrologBaseline) {
    mla_prolog_.note(kNative);
    return false;
  }
  return run_chosen(mla_prolog_, chosen->name, chosen->unsupported(prolog_weights_[index], call),
                    [&] { prologs_of(*chosen)[index]->run(call, executor_); });
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
