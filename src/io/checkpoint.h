// The weights of a Hugging Face folder: one safetensors file, or shards listed by an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace tessera {

// A tensor of the checkpoint, valid as long as the checkpoint.
struct CheckpointTensor {
  const SafetensorsFile* file;
  const SafetensorsEntry* entry;

  SafetensorsDType dtype() const { return entry->dtype; }
  const std::vector<std::int64_t>& shape() const { return entry->shape; }
  std::span<const std::byte> bytes() const { return file->bytes(*entry); }  // not aligned
  // Starts reading its bytes from the disk.
  void prefetch() const { file->prefetch(*entry); }
  // Drops the pages of a range of its bytes from memory, after reading.
  void release(std::size_t first, std::size_t n) const { file->release(*entry, first, n); }
};

// All tensors of a folder, by name. Opening reads headers only; the data stays on disk until it is
// touched.
class Checkpoint {
 public:
  static constexpr std::string_view kSingleFile = "model.safetensors";
  static constexpr std::string_view kIndexFile = "model.safetensors.index.json";

  // Takes model.safetensors where it exists, else the shards of the index. Throws Error:
  // - kFileNotFound: no such folder, no weights in it, or a shard of the index is missing
  // - kUnsupported: weights in another format only (.bin, .gguf, ...)
  // - kBadJson: the index is broken, or a shard's name is not a plain file name
  // - kMissingTensor: the index places a tensor in a shard that lacks it
  // - kUnexpectedTensor: a shard holds a tensor that the index does not list
  // - kBadSafetensors: a damaged file, or a tensor in two shards
  static Checkpoint open(const std::filesystem::path& folder);

  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;

  const std::string& folder() const { return folder_; }
  // The weights as errors name them: the path of the single file or of the index.
  const std::string& name() const { return name_; }

  const CheckpointTensor* find(std::string_view name) const;  // nullptr: not there
  const CheckpointTensor& get(std::string_view name) const;   // throws Error(kMissingTensor)
  std::vector<std::string> names() const;                     // sorted
  std::size_t size() const { return tensors_.size(); }
  std::size_t total_bytes() const;  // of all tensors, without headers

 private:
  explicit Checkpoint(const std::filesystem::path& folder);

  void open_single();
  void open_shards();
  void add_file(const SafetensorsFile& file);

  std::string folder_;
  std::string name_;
  std::map<std::string, SafetensorsFile> files_;  // by file name
  std::map<std::string, CheckpointTensor, std::less<>> tensors_;
};

}  // namespace tessera
