#include "model/weight_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "base/fail.h"
#include "io/text_file.h"
#include "model/packed/checkpoint_digest.h"
#include "model/packed/pack_cache.h"
#include "tile/jit/hash.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// An index whose shards were all taken away does not count: what was packed from them is left.
bool has_checkpoint(const fs::path& folder) {
  if (file_exists(folder / Checkpoint::kSingleFile)) return true;
  return file_exists(folder / Checkpoint::kIndexFile) &&
         std::ranges::any_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
           return entry.path().extension() == ".safetensors";
         });
}

std::string cache_key(const Checkpoint& checkpoint, const ModelConfig& config, WeightFormat format,
                      KvCacheForm form) {
  tile::Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(PackedHeader::kFormatVersion));
  hasher.add(static_cast<std::uint64_t>(PackedHeader::kLayoutVersion));
  hasher.add(to_string(format));
  hasher.add(to_string(form));
  hasher.add(config_digest(config));
  hasher.add(checkpoint_digest(checkpoint));
  hasher.add(checkpoint_files_digest(checkpoint));
  return hasher.result().to_hex();
}

void warn_of(const WarnFn& warn, const Error& error, std::string_view consequence) {
  if (warn) warn(fmt::format("{}; {}", error.what(), consequence));
}

}  // namespace

WeightFormat stored_format(const Checkpoint& checkpoint) {
  const CheckpointTensor* embedding = checkpoint.find(WeightPlan::kEmbedding);
  if (embedding == nullptr) return WeightFormat::kBF16;  // load_weights() says what is missing
  return weight_format(compute_dtype(embedding->dtype()).value_or(DType::kBF16));
}

WeightSource::WeightSource(fs::path folder, const fs::path& packed,
                           std::optional<WeightFormat> format)
    : folder_(std::move(folder)) {
  const bool stored = has_checkpoint(folder_);
  if (!packed.empty()) {
    packed_ = PackedFile::open(packed);
    if (format && *format != packed_->header().format) {
      fail(ErrorCode::kInvalidArgument,
           "{}: holds {} weights, not {}; leave out --dtype or pack the model again",
           packed_->name(), to_string(packed_->header().format), to_string(*format));
    }
  } else if (!stored) {
    find_packed(format);
  }
  // Without either, opening says what the folder lacks.
  if (stored || !packed_) {
    checkpoint_ = std::make_shared<const Checkpoint>(Checkpoint::open(folder_));
  }
  format_ = packed_ ? packed_->header().format : format.value_or(stored_format(*checkpoint_));
}

void WeightSource::find_packed(std::optional<WeightFormat> format) {
  std::vector<std::string> names;
  fs::path found;
  for (WeightFormat candidate : kWeightFormats) {
    if (format && candidate != *format) continue;
    for (KvCacheForm form : {KvCacheForm::kLatent, KvCacheForm::kExpanded}) {
      const fs::path path = packed_path(folder_, candidate, form);
      if (!file_exists(path)) continue;
      names.push_back(path.filename().string());
      found = path;
    }
  }
  if (names.size() > 1) {
    fail(ErrorCode::kInvalidArgument, "{}: holds several packed models ({}); choose with --packed",
         folder_.string(), fmt::join(names, ", "));
  }
  if (names.size() == 1) packed_ = PackedFile::open(found);
}

std::optional<KvCacheForm> WeightSource::form() const {
  if (!packed_) return std::nullopt;
  return packed_->header().form;
}

ModelWeights WeightSource::load(const ModelConfig& config, KvCacheForm form,
                                const PackCacheOptions& cache, ops::Executor& executor,
                                const ProgressFn& progress, const WarnFn& warn) const {
  if (packed_) {
    if (packed_->header().form != form) {
      fail(ErrorCode::kInvalidArgument,
           "{}: is for the {} cache, but the chosen kernels need the {} one; choose others, or "
           "pack with --kv-cache {}",
           packed_->name(), to_string(packed_->header().form), to_string(form), to_string(form));
    }
    return load_packed(*packed_, config, executor, progress);
  }
  check_tensor_count(*checkpoint_, config);
  const fs::path beside = packed_path(folder_, format_, form);
  if (file_exists(beside)) {
    auto weights = try_packed(beside, config, form, executor, progress, warn);
    if (weights) return std::move(*weights);
  }
  if (is_worth_keeping(config, cache)) {
    return load_cached(config, form, cache, executor, progress, warn);
  }
  ProgressCounter counter(progress, source_bytes(*checkpoint_, config));
  return load_weights(checkpoint_, config, format_, form, executor, counter);
}

ModelWeights WeightSource::load_packed(const PackedFile& file, const ModelConfig& config,
                                       ops::Executor& executor, const ProgressFn& progress) const {
  file.check_config(config, folder_);
  if (checkpoint_) file.check_checkpoint(checkpoint_digest(*checkpoint_), folder_);
  ProgressCounter counter(progress, file.header().file_bytes() - file.header().arena_offset);
  return file.weights(config, executor, counter);
}

std::optional<ModelWeights> WeightSource::try_packed(const fs::path& path,
                                                     const ModelConfig& config, KvCacheForm form,
                                                     ops::Executor& executor,
                                                     const ProgressFn& progress,
                                                     const WarnFn& warn) const {
  try {
    const PackedFile file = PackedFile::open(path);
    if (file.header().format != format_ || file.header().form != form) {
      fail(ErrorCode::kBadPackedFile, "{}: holds other weights than its name says", file.name());
    }
    return load_packed(file, config, executor, progress);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kFileNotFound) return std::nullopt;  // removed just now
    warn_of(warn, error, "the checkpoint is packed instead");
    return std::nullopt;
  }
}

bool WeightSource::is_worth_keeping(const ModelConfig& config,
                                    const PackCacheOptions& cache) const {
  return !cache.folder.empty() && format_ != stored_format(*checkpoint_) &&
         source_bytes(*checkpoint_, config) >= cache.min_source_bytes;
}

ModelWeights WeightSource::load_cached(const ModelConfig& config, KvCacheForm form,
                                       const PackCacheOptions& options, ops::Executor& executor,
                                       const ProgressFn& progress, const WarnFn& warn) const {
  std::optional<PackCache> cache;
  std::optional<PackCache::Reservation> place;
  fs::path path;
  if (checkpoint_->find(WeightPlan::kEmbedding) != nullptr) {
    try {
      cache.emplace(options.folder, options.max_bytes);
      path = cache->path_of(cache_key(*checkpoint_, config, format_, form));
      if (file_exists(path)) {
        auto weights = try_packed(path, config, form, executor, progress, warn);
        if (weights) {
          PackCache::touch(path);
          return std::move(*weights);
        }
      }
      place = cache->reserve(packed_file_bytes(*checkpoint_, config, format_, form) +
                             PackedHeader::kArenaAlignment);  // and the header
    } catch (const Error& error) {
      warn_of(warn, error, "packed weights are not kept");
    }
  }
  if (place) {
    try {
      // Into the file, and mapped from there: memory holds the weights once.
      ProgressCounter counter(progress, packing_bytes(*checkpoint_, config));
      write_packed_file(path, *checkpoint_, config, format_, form, executor, counter);
      ProgressCounter mapping(nullptr, 0);
      return PackedFile::open(path).weights(config, executor, mapping);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kIo) throw;  // the checkpoint's fault
      warn_of(warn, error, "packed weights are not kept");
    }
  }
  ProgressCounter counter(progress, source_bytes(*checkpoint_, config));
  return load_weights(checkpoint_, config, format_, form, executor, counter);
}

}  // namespace tessera
