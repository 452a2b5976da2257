// One forward step of DeepSeek-V2 as a recording: what ForwardPass::run() does, with the same bits.
#pragma once

#include "graph/recorder.h"
#include "model/config.h"
#include "model/graph/step_inputs.h"
#include "model/kernels.h"
#include "model/kv_cache.h"
#include "model/weights.h"
#include "ops/recorded_rows.h"

namespace tessera {

// All must outlive the recording.
struct StepParts {
  const ModelConfig& config;
  const ModelWeights& weights;
  ModelKernels& kernels;
  KvCache& cache;
  StepInputs& inputs;
};

struct RecordedStep {
  ops::RecordedRows x;       // [rows, hidden]: a replay finds the embedding of its tokens there
  ops::RecordedRows logits;  // [logits, vocab]: what comes out
};

// Throws Error(kUnsupported) naming an operator that cannot be recorded.
RecordedStep record_step(graph::Recorder& recorder, const StepParts& parts);

}  // namespace tessera
