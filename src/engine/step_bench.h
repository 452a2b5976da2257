// Measures steps of the forward pass, each sample between two measurements of what the machine can
// do at that moment.
#pragma once

#include <cstdint>
#include <vector>

#include <tessera/graph.h>

#include "base/series.h"
#include "engine/loaded_model.h"
#include "engine/step_trace.h"
#include "model/step_cost.h"
#include "ops/limits/machine_limits.h"
#include "ops/step_profile.h"

namespace tessera {

// A sample: `sequences` sequences with `depth` tokens in their caches get `new_tokens` more each,
// in steps of at most `step_tokens`. Logits are wanted of the last token of every step, or, without
// all_logits, of the last step alone.
struct StepWork {
  std::int64_t sequences = 1;
  std::int64_t depth = 0;
  std::int64_t new_tokens = 1;
  std::int64_t step_tokens = 1;
  bool all_logits = true;

  std::int64_t steps() const { return (new_tokens + step_tokens - 1) / step_tokens; }
  std::int64_t reached() const { return depth + new_tokens; }  // by each sequence
};

// Of one part of the forward pass, per step.
struct PartMeasurement {
  ops::StepPart part = ops::StepPart::kOutside;
  Series seconds;
  Series kernel_seconds;  // of these, in parallel regions
  Series share_of_time;
  Series gb_per_second;
  Series gflop_per_second;
  Series share_of_limit;
  double bytes = 0;  // of the last sample
};

// One sample each, in the order of measurement.
struct StepMeasurement {
  StepWork work;
  bool replayed = false;  // by graphs, else eager
  GraphReport graph;      // what they did
  Series tokens_per_second;
  Series bytes_per_token;  // weights that were read and rows of the cache, once per step
  Series gb_per_second;
  Series gflop_per_second;
  // Tokens per second if all that is read came at the speed of read_gb_per_second, or all that is
  // multiplied at the peaks, whichever is slower.
  Series limit;
  Series share_of_limit;
  Series read_gb_per_second;    // what the machine can read
  Series dot_gflop_per_second;  // its peak at the mixture of dot products that the step has
  Series experts_per_step;      // whose weights were read, summed over the layers
  bool limited_by_reading = true;
  std::vector<PartMeasurement> parts;  // if wanted: those that took time or have work
};

// Throws Error(kInvalidArgument) for sequences longer than the positions of the model.
void check_positions(const StepWork& work, const ModelConfig& config);

// Runs one sample, to see what memory it takes.
void run_steps(LoadedModel& model, const StepWork& work);

// How steps are run: eagerly, by graphs, or both in turn.
enum class StepModes { kEager, kReplayed, kBoth };

class StepBench {
 public:
  // The model must be loaded and outlive this. Throws what MachineLimits throws.
  explicit StepBench(LoadedModel& model, StepModes modes = StepModes::kEager,
                     const GraphOptions& graph = {});

  // One sample that is not counted, which compiles kernels, then n_samples. What the caches hold at
  // the beginning are random numbers of the size of real ones, instead of the results of a prefill:
  // the time of attention does not depend on them. The ids of tokens are random too. by_part
  // measures the parts: a clock is read some hundred times a step.
  //
  // From now on one more sample of every mode is traced after the measured ones.
  void trace(StepTrace* trace) { trace_ = trace; }

  // One measurement for each mode, their samples in turn.
  //
  // Throws what check_positions() throws, and Error(kOutOfMemory) for a cache that does not fit.
  std::vector<StepMeasurement> measure(const StepWork& work, int n_samples, bool by_part);

 private:
  struct Limit;
  class Measuring;

  Limit limit_now(const PartCost& work);  // only of the dot products that it has

  LoadedModel& model_;
  StepModes modes_;
  GraphOptions graph_;
  StepTrace* trace_ = nullptr;
  ops::MachineLimits limits_;
};

}  // namespace tessera
