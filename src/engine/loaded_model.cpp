#include "engine/loaded_model.h"

#include <chrono>

#include "base/fail.h"
#include "base/machine.h"
#include "io/checkpoint.h"

namespace tessera {

namespace {

// The type most of the checkpoint is stored in: that of the embedding.
WeightFormat stored_format(const std::filesystem::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const CheckpointTensor* embedding = checkpoint.find("model.embed_tokens.weight");
  if (embedding == nullptr) return WeightFormat::kBF16;  // load_weights() says what is missing
  return weight_format(compute_dtype(embedding->dtype()).value_or(DType::kBF16));
}

int checked_threads(const LoadOptions& options) {
  if (options.threads < 0) {
    fail(ErrorCode::kInvalidArgument,
         "LoadOptions::threads must be 0 (the CPUs of this process) or more, not {}",
         options.threads);
  }
  return options.threads > 0 ? options.threads : available_cpus();
}

}  // namespace

LoadedModel::LoadedModel(const std::filesystem::path& folder, const LoadOptions& options)
    : executor(checked_threads(options)),
      config(ModelConfig::load(folder)),
      format(options.format ? *options.format : stored_format(folder)),
      choice(choose_kernels(options.kernels, config, format, options.warn)) {}

void LoadedModel::load(const std::filesystem::path& folder, const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  weights = load_weights(folder, config, format, choice.kv_cache, executor, options.progress);
  kernels.emplace(choice, config, weights, executor, options.warn);
  load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tessera
