// Packed models on disk: written once, then mapped by every run (packed_header.h has the format).
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/progress.h"
#include "io/mapped_file.h"
#include "model/packed/packed_header.h"
#include "model/weights.h"
#include "ops/executor.h"

namespace tessera {

class PackedFile {
 public:
  // Reads the header; what follows is not touched. Throws what MappedFile and PackedHeader::parse
  // throw.
  static PackedFile open(const std::filesystem::path& path);

  const std::string& name() const { return file_->name(); }
  const PackedHeader& header() const { return header_; }

  // Throws Error(kBadPackedFile) where it holds a model that `config`, read from that folder, does
  // not describe.
  void check_config(const ModelConfig& config, const std::filesystem::path& folder) const;
  // Where it was packed from other weights than those in the folder.
  void check_checkpoint(std::string_view digest, const std::filesystem::path& folder) const;

  // The weights, for a config that passed. They lie in the file, which stays mapped, read-only and
  // shared with other processes; a sample of it is compared with its checksums, which throws
  // Error(kBadPackedFile).
  ModelWeights weights(const ModelConfig& config, ops::Executor& executor,
                       ProgressCounter& progress) const;
  // Compares everything with its checksums. Throws Error(kBadPackedFile).
  void check_data(ops::Executor& executor, const ProgressFn& progress) const;

 private:
  PackedFile(std::shared_ptr<const MappedFile> file, PackedHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  bool is_intact(std::size_t block) const;
  [[noreturn]] void fail_block(std::size_t block) const;

  std::shared_ptr<const MappedFile> file_;
  PackedHeader header_;
};

// What identifies the sizes of a model: a hash of the tensors that its config.json asks for.
std::string config_digest(const ModelConfig& config);

// Packs a checkpoint into a file, in pieces: what is in memory is some 150 MB of it. The file
// appears complete or not at all. Throws Error: what load_weights() throws, except for memory; what
// AtomicFile throws; kIo for what is no regular file. progress counts packing_bytes() on.
void write_packed_file(const std::filesystem::path& path, const Checkpoint& checkpoint,
                       const ModelConfig& config, WeightFormat format, KvCacheForm form,
                       ops::Executor& executor, ProgressCounter& progress);
std::size_t packing_bytes(const Checkpoint& checkpoint, const ModelConfig& config);
// What it writes, without the header.
std::size_t packed_file_bytes(const Checkpoint& checkpoint, const ModelConfig& config,
                              WeightFormat format, KvCacheForm form);

// The name of the packed file that belongs to a folder: FOLDER/model-int4.tessera, or
// model-int4-expanded.tessera for the expanded cache.
std::filesystem::path packed_path(const std::filesystem::path& folder, WeightFormat format,
                                  KvCacheForm form);

}  // namespace tessera
