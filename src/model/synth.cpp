#include "model/synth.h"

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "base/thread_pool.h"
#include "io/checkpoint.h"
#include "io/quote.h"
#include "io/text_file.h"
#include "model/config.h"
#include "model/synth/disk_space.h"
#include "model/synth/shard.h"
#include "model/weights.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

using nlohmann::ordered_json;

// A file that is copied or written as it is.
struct TextFile {
  std::string name;
  std::string text;
};

std::string generation_config(const ModelConfig& config) {
  ordered_json json = {{"_from_model_config", true}};
  if (config.bos_token_id) json["bos_token_id"] = *config.bos_token_id;
  if (config.eos_token_ids.size() == 1) {
    json["eos_token_id"] = config.eos_token_ids.front();
  } else if (!config.eos_token_ids.empty()) {
    json["eos_token_id"] = config.eos_token_ids;
  }
  json["do_sample"] = false;
  return json.dump(2) + "\n";
}

// Everything but the weights.
std::vector<TextFile> text_files(const SynthOptions& options, const ModelConfig& config) {
  std::vector<TextFile> files = {{"config.json", options.config_json},
                                 {"generation_config.json", generation_config(config)}};
  if (options.tokenizer_folder) {
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      files.push_back({name, read_text_file(*options.tokenizer_folder / name)});
    }
  }
  return files;
}

using Shard = std::vector<TensorShape>;

std::vector<Shard> split(std::vector<TensorShape> tensors, std::size_t max_bytes) {
  std::vector<Shard> shards;
  std::size_t bytes = 0;
  for (TensorShape& tensor : tensors) {
    const std::size_t size = bf16_bytes(tensor);
    if (shards.empty() || bytes + size > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += size;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

std::string index_text(const std::vector<Shard>& shards, std::size_t total_bytes) {
  ordered_json weight_map = ordered_json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const TensorShape& t : shards[i]) weight_map[t.name] = shard_name(i, shards.size());
  }
  const ordered_json index = {{"metadata", {{"total_size", total_bytes}}},
                              {"weight_map", std::move(weight_map)}};
  return index.dump(2) + "\n";
}

void require_empty(const fs::path& folder) {
  std::error_code error;
  const fs::file_type type = fs::status(folder, error).type();
  if (type == fs::file_type::not_found) return;
  if (type == fs::file_type::directory) {
    const bool is_empty = fs::is_empty(folder, error);
    if (!error && is_empty) return;
    if (!error) {
      fail(ErrorCode::kInvalidArgument,
           "{}: the folder is not empty; name a new one, or delete what it holds", folder.string());
    }
  }
  if (error) fail(ErrorCode::kIo, "{}: cannot be read ({})", folder.string(), error.message());
  fail(ErrorCode::kInvalidArgument, "{}: is not a folder; name a new one", folder.string());
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorCode::kIo, "{}: cannot be created ({})", folder.string(), error.message());
}

}  // namespace

void write_synthetic_model(const fs::path& folder, const SynthOptions& options,
                           const ProgressFn& progress) {
  const ModelConfig config = ModelConfig::parse(options.config_json, "config.json");
  require_empty(folder);
  const std::vector<TextFile> texts = text_files(options, config);
  std::vector<TensorShape> tensors = checkpoint_tensors(config);
  std::size_t weight_bytes = 0;
  for (const TensorShape& tensor : tensors) weight_bytes += bf16_bytes(tensor);
  require_disk(folder, weight_bytes);

  ThreadPool pool(options.threads);
  create_folder(folder);
  for (const TextFile& file : texts) write_text_file(folder / file.name, file.text);
  const std::vector<Shard> shards = split(std::move(tensors), options.max_shard_bytes);
  ShardWriter writer(config, options.seed, pool);
  std::size_t done = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    writer.write(folder / shard_name(i, shards.size()), shards[i], [&](std::size_t n_bytes) {
      done += n_bytes;
      if (progress && n_bytes > 0) progress(done, weight_bytes);
    });
  }
  write_text_file(folder / Checkpoint::kIndexFile, index_text(shards, weight_bytes));
}

}  // namespace tessera
