// Synthetic models: real sizes and random weights, for benchmarks without a download.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/progress.h"

namespace tessera {

struct SynthOptions {
  std::string config_json;  // the text of config.json, of any model that ModelConfig reads
  std::uint64_t seed = 0;   // same seed and config: same bytes
  int threads = 1;
  // Where tokenizer.json and tokenizer_config.json come from; without it the model has none.
  std::optional<std::filesystem::path> tokenizer_folder = std::nullopt;
  std::size_t max_shard_bytes = 4'000'000'000;  // one larger tensor makes a larger shard
};

// Writes config.json, generation_config.json (greedy), the tokenizer's files and bf16 weights in
// shards; the folder is created, or exists and is empty. The index of the shards is written last:
// what an interrupted call leaves cannot be loaded. synth/statistics.h says what the weights are.
//
// Throws Error, before anything is written: what ModelConfig::parse throws; kInvalidArgument for a
// folder that is not empty; kFileNotFound without the tokenizer's files; kIo when the disk has less
// than 5 % more than the model takes, or when the folder cannot be written.
void write_synthetic_model(const std::filesystem::path& folder, const SynthOptions& options,
                           const ProgressFn& progress);

}  // namespace tessera
