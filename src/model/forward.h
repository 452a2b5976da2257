// The forward pass of DeepSeek-V2 over a batch of sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "model/config.h"
#include "model/kernels.h"
#include "model/kv_cache.h"
#include "model/segment.h"
#include "model/weights.h"
#include "ops/executor.h"
#include "ops/rope/rope.h"
#include "ops/router/router.h"
#include "ops/rows.h"

namespace tessera {

// Told the residual stream [tokens, hidden] after each layer.
using LayerObserver = std::function<void(std::int64_t layer, const ops::ConstRows& hidden)>;

class ForwardPass {
 public:
  // All four must outlive the pass.
  ForwardPass(const ModelConfig& config, const ModelWeights& weights, ops::Executor& executor,
              ModelKernels& kernels);

  // One step: T tokens of several sequences, flattened; a sequence appears in at most one segment.
  // The cache has the form that the kernels were chosen for. Appends them to the cache and returns
  // logits [sum of n_logits, vocab] in the order of the segments, valid until the next run. Throws
  // Error(kInvalidArgument) for a token outside the vocabulary and Error(kContextOverflow) when the
  // cache or the model's positions run out; the cache is then as before.
  ops::ConstRows run(std::span<const Segment> segments, KvCache& cache,
                     const LayerObserver& observe = nullptr);

 private:
  struct Activations;  // views into memory_ for the current number of tokens

  Activations arrange(std::int64_t n_tokens, std::int64_t n_logits);
  void embed(std::span<const Segment> segments, const ops::Rows& x) const;
  void norm(const ops::ConstRows& x, const ops::Weight& w, const ops::Rows& y);
  void attention(const AttentionWeights& w, std::int64_t layer, std::span<const Segment> segments,
                 KvCache& cache, Activations& a);
  void query(const AttentionWeights& w, Activations& a);
  void keep(const AttentionWeights& w, std::int64_t layer, std::span<const Segment> segments,
            KvCache& cache, Activations& a);
  void attend_latents(const AttentionWeights& w, std::int64_t layer,
                      std::span<const Segment> segments, const KvCache& cache, Activations& a);
  void attend_absorbed(const AttentionWeights& w, const ops::LatentPages& cache, std::int64_t row,
                       std::int64_t n, Activations& a);
  void attend_expanding(const AttentionWeights& w, const ops::LatentPages& cache, std::int64_t row,
                        std::int64_t n, Activations& a);
  void attend_expanded(std::int64_t layer, const KvCache& cache, Activations& a);
  void feed_forward(const LayerWeights& w, Activations& a);

  const ModelConfig& config_;
  const ModelWeights& weights_;
  ops::Executor& executor_;
  ModelKernels& kernels_;
  ops::RopeFrequencies frequencies_;
  float attention_scale_;
  ops::RouterParameters router_;
  Buffer memory_;
};

}  // namespace tessera
