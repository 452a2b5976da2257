// generation_config.json: how the model's authors would sample from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Only what the file says: a value that it does not give stays empty, and the caller's default
// holds.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature;         // from 0 up
  std::optional<double> top_p;               // in (0, 1]
  std::optional<double> min_p;               // from 0 to 1
  std::optional<std::int64_t> top_k;         // from 0 up; 0 keeps all tokens
  std::optional<double> repetition_penalty;  // greater than 0; 1 changes nothing
  std::optional<std::int64_t> bos_token_id;
  std::vector<std::int64_t> eos_token_ids;  // may be empty

  // Reads folder/generation_config.json; without that file everything is empty. Throws Error: kIo
  // as MappedFile, kBadJson, and kBadConfig for values of the wrong type or out of range.
  static GenerationConfig load(const std::filesystem::path& folder);
  static GenerationConfig parse(std::string_view json_text, const std::string& name_for_errors);
};

}  // namespace tessera
