#include "engine/loaded_model.h"

#include <chrono>

#include "base/fail.h"
#include "base/machine.h"
#include "model/packed/pack_cache.h"

namespace tessera {

namespace {

// The kernels asked for, and the form of cache that packed weights are for.
KernelOptions kernel_options(const LoadOptions& options, const WeightSource& source) {
  KernelOptions kernels = options.kernels;
  if (source.form() && kernels.kv_cache == "auto") kernels.kv_cache = to_string(*source.form());
  return kernels;
}

PackCacheOptions pack_cache_options(const LoadOptions& options) {
  PackCacheOptions cache;
  if (options.use_pack_cache) cache.folder = default_pack_cache_folder();
  cache.max_bytes = options.pack_cache_bytes;
  return cache;
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
    : executor(checked_threads(options), ops::Executor::kMinParallelWork,
               options.pin_threads ? ThreadPool::Pinning::kOn : ThreadPool::Pinning::kOff),
      config(ModelConfig::load(folder)),
      source(folder, options.packed, options.format),
      format(source.format()),
      choice(choose_kernels(kernel_options(options, source), config, format, options.warn)) {}

void LoadedModel::load(const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  weights = source.load(config, choice.kv_cache, pack_cache_options(options), executor,
                        options.progress, options.warn);
  kernels.emplace(choice, config, weights, executor, options.warn);
  load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tessera
