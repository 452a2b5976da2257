// Which implementations the forward pass runs, chosen once per model from those of ops/registry.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/kernels.h>

#include "model/attention_form.h"
#include "model/config.h"
#include "model/kv_cache.h"
#include "model/weights.h"
#include "ops/executor.h"
#include "ops/mla_prolog/mla_prolog.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace tessera {

// The norms inside attention have this epsilon whatever the config says, in DeepSeek's own code
// too.
inline constexpr float kLatentNormEps = 1e-6f;

struct KernelChoice {
  const ops::RmsNormImplementation* rms_norm = &ops::kRmsNormNative;
  const ops::RopeImplementation* rope = &ops::kRopeNative;
  const ops::MlaPrologImplementation* mla_prolog = nullptr;  // none: native operators, in sequence
  KvCacheForm kv_cache = KvCacheForm::kLatent;
  AttentionForm attention = AttentionForm::kAuto;  // over a latent cache
};

// What the options mean for such a model, weights in `format`. Where the options name an
// implementation that cannot run it, warns and takes the native one; "auto" passes over it in
// silence. Throws Error(kInvalidArgument) for an unknown name, for a prolog that does not write the
// form of cache that is asked for, and for absorbed attention over an expanded cache.
KernelChoice choose_kernels(const KernelOptions& options, const ModelConfig& config,
                            WeightFormat format, const WarnFn& warn);

// "rope tile needs a multiple of 16; the native operators run instead".
std::string native_instead(std::string_view op, std::string_view name, std::string_view why);

// The chosen implementations with each layer's weights. One that cannot run a call, or that throws
// (a kernel that cannot be compiled does so before it writes anything), is replaced by the native
// operator: for that call, or from then on. The first time of each kind is a warning.
class ModelKernels {
 public:
  // Everything must outlive it. Makes the prologs of all layers, which may pack their weights;
  // those of "auto" at their first use.
  ModelKernels(const KernelChoice& choice, const ModelConfig& config, const ModelWeights& weights,
               ops::Executor& executor, WarnFn warn = nullptr);

  KvCacheForm kv_cache() const { return kv_cache_; }
  // Whether so many new tokens of a sequence attend to a latent cache in expanded form; never with
  // an expanded cache, whose attention has one form.
  bool expands(std::int64_t n_tokens) const { return n_tokens >= least_expanded_tokens_; }
  bool all_native() const;  // nothing to compile

  // As ops::rms_norm() and ops::rope() with the interleaved layout.
  void rms_norm(const ops::ConstRows& x, const float* weight, float eps, const ops::Rows& y);
  void rope(const ops::Heads& x, const ops::ConstRows& cos, const ops::ConstRows& sin);
  // False: the native sequence of operators is to run, by the caller.
  bool mla_prolog(std::int64_t layer, const ops::MlaPrologCall& call);

  // The same three in a recorded step. What the functions above would run is recorded; throws
  // Error(kUnsupported) naming an implementation that cannot be.
  void record_rms_norm(graph::Recorder& recorder, graph::LaunchInfo info,
                       const ops::RecordedRows& x, const float* weight, float eps,
                       const ops::RecordedRows& y);
  void record_rope(graph::Recorder& recorder, graph::LaunchInfo info,
                   const ops::RecordedRotation& call);
  bool record_mla_prolog(graph::Recorder& recorder, std::int64_t layer,
                         const ops::RecordedProlog& call);
  // Whether steps of two numbers of tokens run the same prolog, told by calls of these.
  bool same_prolog(const ops::MlaPrologCall& a, const ops::MlaPrologCall& b) const;

  KernelNames names() const;

  // Whether a step of n_sequences times q_len tokens was not warmed up yet; it counts as warm from
  // now on.
  bool mark_warm(std::int64_t n_sequences, std::int64_t q_len);

  void warn(std::string_view sentence) const;

 private:
  // One operator: what was chosen, and what ran.
  struct Operator {
    std::string_view op;
    std::string_view name;  // of the implementation
    bool failed = false;
    bool warned = false;
    std::vector<std::string_view> ran = {};  // names, in order of their first run, native last

    void note(std::string_view implementation);
    std::string names() const;
  };

  using LayerPrologs = std::vector<std::unique_ptr<ops::MlaProlog>>;

  // What mla_prolog() runs such a call with; null: the native sequence.
  const ops::MlaPrologImplementation* prolog_for(std::int64_t layer,
                                                 const ops::MlaPrologCall& call) const;
  bool can_run(Operator& op, std::string_view name, const std::string& unsupported);
  template <typename Run>
  bool run_chosen(Operator& op, std::string_view name, const std::string& unsupported, Run&& run);
  const LayerPrologs& prologs_of(const ops::MlaPrologImplementation& implementation);

  ops::Executor& executor_;
  WarnFn warn_;
  KvCacheForm kv_cache_;
  std::int64_t least_expanded_tokens_;
  Operator rms_norm_;
  Operator rope_;
  Operator mla_prolog_;
  const ops::RmsNormImplementation* rms_norm_implementation_;
  const ops::RopeImplementation* rope_implementation_;
  const ops::MlaPrologImplementation* mla_prolog_implementation_;
  std::vector<ops::MlaPrologWeights> prolog_weights_;  // per layer, where one was chosen
  // Made together at the first use of an implementation: "auto" may use several.
  std::map<const ops::MlaPrologImplementation*, LayerPrologs> prologs_;
  std::set<std::pair<std::int64_t, std::int64_t>> warm_steps_;  // sequences, tokens of each
};

}  // namespace tessera
