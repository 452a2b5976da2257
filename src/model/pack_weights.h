// Packing a checkpoint: piece by piece, to wherever packed weights go.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/progress.h"
#include "io/checkpoint.h"
#include "model/weight_plan.h"
#include "ops/executor.h"

namespace tessera {

// Where the bytes of an arena go. Pieces come in ascending order and do not overlap; what lies
// between them is zero.
class ArenaSink {
 public:
  ArenaSink() = default;
  virtual ~ArenaSink() = default;
  ArenaSink(const ArenaSink&) = delete;
  ArenaSink& operator=(const ArenaSink&) = delete;

  // Memory for n bytes of the arena from `offset`, aligned to 64 bytes as the offset is, for all
  // threads to fill until done().
  virtual std::byte* piece(std::size_t offset, std::size_t n) = 0;
  virtual void done() = 0;
};

// Throws Error where the files do not hold exactly what the plan needs: kMissingTensor,
// kUnexpectedTensor, kWrongShape, kUnsupported.
void check_tensors(const Checkpoint& checkpoint, const WeightPlan& plan);

// Packs one matrix after another, each by all threads, then the vectors, for a checkpoint that
// passed the check. Of the checkpoint's pages, those at work are resident and no others. Throws
// Error(kUnsupported) for a value that fp16 cannot hold, and for one that is not finite where it
// would be quantised.
void pack_weights(const Checkpoint& checkpoint, const WeightPlan& plan, ArenaSink& sink,
                  ops::Executor& executor, ProgressCounter& progress);

// Old checkpoints carry the rotary frequencies, which follow from config.json.
bool is_derived_tensor(std::string_view name);

}  // namespace tessera
