// A model folder's config, weights and kernels, on the threads that run them: what LanguageModel
// and the benchmarks have in common.
#pragma once

#include <filesystem>
#include <optional>

#include <tessera/language_model.h>

#include "model/config.h"
#include "model/kernels.h"
#include "model/weight_source.h"
#include "model/weights.h"
#include "ops/executor.h"

namespace tessera {

struct LoadedModel {
  // Reads the config, finds the weights and chooses the kernels; load() reads the weights. Both
  // throw Error.
  LoadedModel(const std::filesystem::path& folder, const LoadOptions& options);
  void load(const LoadOptions& options);

  ops::Executor executor;
  ModelConfig config;
  WeightSource source;
  WeightFormat format;
  KernelChoice choice;
  ModelWeights weights;
  std::optional<ModelKernels> kernels;  // always there, once loaded
  double load_s = 0;
};

}  // namespace tessera
