#include "io/checkpoint.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/fail.h"
#include "io/json_file.h"
#include "io/quote.h"
#include "io/text_file.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// What people keep weights in that this program does not read.
constexpr std::array<std::string_view, 6> kOtherFormats = {".bin", ".gguf",    ".ggml",
                                                           ".h5",  ".msgpack", ".pth"};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    files.push_back(i->path().filename());
  }
  if (error) fail(ErrorCode::kIo, "{}: cannot be read ({})", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

[[noreturn]] void fail_without_weights(const fs::path& folder) {
  for (const fs::path& file : files_in(folder)) {
    if (file.extension() == ".safetensors") {
      fail(ErrorCode::kFileNotFound,
           "{}: holds {}, but neither {} nor {}; download the missing file", folder.string(),
           in_quotes(file.string()), Checkpoint::kSingleFile, Checkpoint::kIndexFile);
    }
  }
  for (const fs::path& file : files_in(folder)) {
    const std::string extension = file.extension().string();
    if (std::find(kOtherFormats.begin(), kOtherFormats.end(), extension) != kOtherFormats.end()) {
      fail(ErrorCode::kUnsupported,
           "{}: holds {}, but {} weights are not supported; give a folder with {} or {}",
           folder.string(), in_quotes(file.string()), extension, Checkpoint::kSingleFile,
           Checkpoint::kIndexFile);
    }
  }
  fail(ErrorCode::kFileNotFound, "{}: holds no weights (looked for {} and {})", folder.string(),
       Checkpoint::kSingleFile, Checkpoint::kIndexFile);
}

// A name that stays inside the folder: no separators, no control characters, not hidden.
bool is_plain_file_name(std::string_view name) {
  return name.ends_with(".safetensors") && name.front() != '.' &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
         });
}

// tensor -> shard, as the index says.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const JsonObject index = JsonObject::read(path, ErrorCode::kBadJson);
  const JsonObject weight_map = index.required_object("weight_map");
  std::map<std::string, std::string> shard_of;
  for (const std::string& tensor : weight_map.keys()) {
    std::string shard = weight_map.required_string(tensor);
    if (!is_plain_file_name(shard)) {
      fail(
          ErrorCode::kBadJson,
          "{}: places tensor {} in {}, which is not the name of a .safetensors file in this folder",
          path.string(), in_quotes(tensor), in_quotes(shard));
    }
    shard_of.emplace(tensor, std::move(shard));
  }
  if (shard_of.empty())
    fail(ErrorCode::kBadJson, "{}: \"weight_map\" lists no tensor", path.string());
  return shard_of;
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder.string()) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status)) {
    if (error && status.type() == fs::file_type::none) {
      fail(ErrorCode::kIo, "{}: cannot be read ({})", folder_, error.message());
    }
    fail(ErrorCode::kFileNotFound, "{}: no such folder; check the path", folder_);
  }
  if (!fs::is_directory(status)) {
    fail(ErrorCode::kIo, "{}: is not a folder; give the folder that holds the model", folder_);
  }
  if (file_exists(folder / kSingleFile)) {
    open_single();
  } else if (file_exists(folder / kIndexFile)) {
    open_shards();
  } else {
    fail_without_weights(folder);
  }
}

Checkpoint Checkpoint::open(const fs::path& folder) {
  return Checkpoint(folder);
}

void Checkpoint::add_file(const SafetensorsFile& file) {
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto [place, is_new] = tensors_.emplace(entry.name, CheckpointTensor{&file, &entry});
    if (!is_new) {
      fail(ErrorCode::kBadSafetensors, "{}: tensor {} is also in {}", file.name(),
           in_quotes(entry.name), place->second.file->name());
    }
  }
}

void Checkpoint::open_single() {
  const fs::path path = fs::path(folder_) / kSingleFile;
  name_ = path.string();
  add_file(files_.emplace(kSingleFile, SafetensorsFile::open(path)).first->second);
}

void Checkpoint::open_shards() {
  const fs::path path = fs::path(folder_) / kIndexFile;
  name_ = path.string();
  const std::map<std::string, std::string> shard_of = read_index(path);

  for (const auto& [tensor, shard] : shard_of) {
    if (files_.contains(shard)) continue;
    if (!file_exists(fs::path(folder_) / shard)) {
      fail(ErrorCode::kFileNotFound, "{}: names the file {}, which is missing; download it", name_,
           in_quotes(shard));
    }
    files_.emplace(shard, SafetensorsFile::open(fs::path(folder_) / shard));
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (files_.at(shard).find(tensor) == nullptr) {
      fail(ErrorCode::kMissingTensor, "{}: places tensor {} in {}, which does not hold it", name_,
           in_quotes(tensor), in_quotes(shard));
    }
  }
  for (const auto& [shard, file] : files_) {
    for (const SafetensorsEntry& entry : file.entries()) {
      if (!shard_of.contains(entry.name)) {
        fail(ErrorCode::kUnexpectedTensor, "{}: holds tensor {}, which {} does not list",
             file.name(), in_quotes(entry.name), kIndexFile);
      }
    }
    add_file(file);
  }
}

const CheckpointTensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const CheckpointTensor& Checkpoint::get(std::string_view name) const {
  const CheckpointTensor* tensor = find(name);
  if (tensor == nullptr) {
    fail(ErrorCode::kMissingTensor, "{}: holds no tensor {}", name_, in_quotes(name));
  }
  return *tensor;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

std::size_t Checkpoint::total_bytes() const {
  std::size_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += tensor.entry->n_bytes;
  return total;
}

}  // namespace tessera
