// Packing the reference models into files, for the tests of packed models.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "base/checksum.h"
#include "model/packed/checkpoint_digest.h"
#include "model/packed/packed_file.h"
#include "tests/always_parallel.h"
#include "tests/model/reference_data.h"

namespace tessera::testing {

inline constexpr KvCacheForm kForms[] = {KvCacheForm::kLatent, KvCacheForm::kExpanded};

// Packs the model of a folder into `path`, and returns the same weights in memory.
inline ModelWeights pack_folder(const std::filesystem::path& folder,
                                const std::filesystem::path& path, WeightFormat format,
                                KvCacheForm form, ops::Executor& executor) {
  const ModelConfig config = ModelConfig::load(folder);
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
  ProgressCounter progress(nullptr, 0);
  write_packed_file(path, *checkpoint, config, format, form, executor, progress);
  return load_weights(checkpoint, config, format, form, executor, progress);
}

inline std::string file_content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// Preamble and header around a JSON text, right in itself.
inline std::string packed_start(const std::string& json) {
  std::string bytes = "TSSPACK1";
  for (std::uint64_t value :
       {static_cast<std::uint64_t>(json.size()), checksum(std::as_bytes(std::span(json)))}) {
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
  }
  return bytes + json;
}

}  // namespace tessera::testing
