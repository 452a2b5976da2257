// Where a run takes its weights from: a packed file that it was given, one in the model's folder,
// one of the cache, or else the checkpoint, which is then packed (and perhaps kept in the cache).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <tessera/kernels.h>
#include <tessera/weight_format.h>

#include "base/progress.h"
#include "io/checkpoint.h"
#include "model/config.h"
#include "model/packed/packed_file.h"
#include "model/weights.h"
#include "ops/executor.h"

namespace tessera {

struct PackCacheOptions {
  std::filesystem::path folder;  // empty: no cache
  std::uintmax_t max_bytes = 0;
  // Checkpoints of less are packed faster than a file pays.
  std::size_t min_source_bytes = std::size_t{512} << 20;
};

class WeightSource {
 public:
  // packed: a packed file, or empty. format: what was asked for, if anything; else that of the
  // packed file, or the one that most of the checkpoint is stored in. A folder without checkpoint
  // needs a packed file: one of the names of packed_path() is found.
  //
  // Throws Error: what Checkpoint::open and PackedFile::open throw; kInvalidArgument for a packed
  // file in another format than was asked for, and where several are in the folder.
  WeightSource(std::filesystem::path folder, const std::filesystem::path& packed,
               std::optional<WeightFormat> format);

  WeightFormat format() const { return format_; }
  // The only form of cache that the weights are for, if they are packed already.
  std::optional<KvCacheForm> form() const;

  // Throws Error: what load_weights() throws, what PackedFile throws for a file that was given, and
  // kInvalidArgument for one that is for another form of cache. Files in the folder and in the
  // cache that cannot be used are a warning, and the checkpoint is read instead.
  ModelWeights load(const ModelConfig& config, KvCacheForm form, const PackCacheOptions& cache,
                    ops::Executor& executor, const ProgressFn& progress, const WarnFn& warn) const;

 private:
  void find_packed(std::optional<WeightFormat> format);
  ModelWeights load_packed(const PackedFile& file, const ModelConfig& config,
                           ops::Executor& executor, const ProgressFn& progress) const;
  std::optional<ModelWeights> try_packed(const std::filesystem::path& path,
                                         const ModelConfig& config, KvCacheForm form,
                                         ops::Executor& executor, const ProgressFn& progress,
                                         const WarnFn& warn) const;
  ModelWeights load_cached(const ModelConfig& config, KvCacheForm form,
                           const PackCacheOptions& options, ops::Executor& executor,
                           const ProgressFn& progress, const WarnFn& warn) const;
  bool is_worth_keeping(const ModelConfig& config, const PackCacheOptions& cache) const;

  std::filesystem::path folder_;
  std::shared_ptr<const Checkpoint> checkpoint_;  // null where the folder has none
  std::optional<PackedFile> packed_;              // instead of the checkpoint
  WeightFormat format_ = WeightFormat::kBF16;
};

// The format that most of a checkpoint is stored in: that of the embedding.
WeightFormat stored_format(const Checkpoint& checkpoint);

}  // namespace tessera
