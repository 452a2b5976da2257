// The graphs of a model on one cache: which steps they serve, and when they are made.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/graph.h>
#include <tessera/kernels.h>

#include "graph/graph.h"
#include "model/config.h"
#include "model/graph/record_step.h"
#include "model/graph/step_inputs.h"
#include "model/kernels.h"
#include "model/kv_cache.h"
#include "model/segment.h"
#include "model/weights.h"
#include "ops/executor.h"

namespace tessera {

class StepGraphs {
 public:
  // All must outlive the graphs; so must the cache's memory. Throws Error(kInvalidArgument) for
  // buckets that are not rising from 1 or more.
  StepGraphs(const ModelConfig& config, const ModelWeights& weights, ops::Executor& executor,
             ModelKernels& kernels, KvCache& cache, const GraphOptions& options);

  // The step of ForwardPass::run(), replayed: the same logits, cache and errors. Nothing, and the
  // caller runs it eagerly: no graph serves such a step; or it is the first of its kind, which may
  // be the only one (a prompt); or it could not be recorded (a warning, once; an error where the
  // options are strict).
  std::optional<ops::ConstRows> run(std::span<const Segment> segments);

  const GraphReport& report() const { return report_; }
  void count_eager_step() { ++report_.eager_steps; }

  // One recorded step.
  struct Captured {
    Captured(std::int64_t max_rows, std::int64_t max_logits, std::int64_t half)
        : inputs(max_rows, max_logits, half) {}
    StepInputs inputs;
    std::optional<graph::Graph> graph;  // always there once recorded
    RecordedStep step;
    std::vector<ops::StepPart> parts;  // of every launch
    // That the bodies were last resized for: the inputs' counts are set before, and resizing may
    // throw.
    std::int64_t rows = 0;
    std::int64_t n_logits = 0;
  };
  // The graph for steps of so many tokens and logits, recorded now if need be; nothing as above.
  Captured* captured(std::int64_t rows, std::int64_t n_logits);

  // Told every graph after its replay, with its times; costs a measurement. Nothing: not told.
  using TimingObserver = std::function<void(const graph::Graph&, const graph::Timing&)>;
  void observe(TimingObserver observer) { observer_ = std::move(observer); }

 private:
  using Key = std::pair<std::int64_t, std::int64_t>;  // buckets of tokens and logits

  std::optional<Key> key_for(std::int64_t rows, std::int64_t n_logits);
  Captured* captured(const Key& key);
  std::optional<std::int64_t> bucket_for(std::int64_t n) const;
  std::unique_ptr<Captured> capture(std::int64_t rows, std::int64_t n_logits);
  bool same_prolog(std::int64_t rows, std::int64_t bucket);
  void add_to_report(const Captured& captured, std::int64_t bucket);
  void replay(Captured& captured);

  const ModelConfig& config_;
  const ModelWeights& weights_;
  ops::Executor& executor_;
  ModelKernels& kernels_;
  KvCache& cache_;
  const GraphOptions options_;
  ops::RopeFrequencies frequencies_;
  bool failed_ = false;
  std::vector<std::optional<bool>> same_prolog_;  // by rows, up to the largest bucket
  std::map<Key, std::unique_ptr<Captured>> graphs_;
  std::set<Key> seen_;
  GraphReport report_;
  TimingObserver observer_;
};

}  // namespace tessera
