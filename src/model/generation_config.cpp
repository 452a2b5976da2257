#include "model/generation_config.h"

#include <limits>

#include "io/json_file.h"
#include "io/text_file.h"

namespace tessera {

namespace {

constexpr std::int64_t kMaxToken = std::numeric_limits<std::int32_t>::max();

GenerationConfig read_config(const JsonObject& json) {
  GenerationConfig config;
  config.do_sample = json.optional_bool("do_sample");
  config.temperature = json.optional_number("temperature");
  if (config.temperature && *config.temperature < 0) {
    json.refuse("temperature", "a number from 0 up");
  }
  config.top_p = json.optional_number("top_p");
  if (config.top_p && !(*config.top_p > 0 && *config.top_p <= 1)) {
    json.refuse("top_p", "a number greater than 0 and at most 1");
  }
  config.min_p = json.optional_number("min_p");
  if (config.min_p && !(*config.min_p >= 0 && *config.min_p <= 1)) {
    json.refuse("min_p", "a number from 0 to 1");
  }
  config.top_k = json.optional_int("top_k", 0, kMaxToken);
  config.repetition_penalty = json.optional_positive("repetition_penalty");
  config.bos_token_id = json.optional_int("bos_token_id", 0, kMaxToken);
  config.eos_token_ids = json.int_or_list("eos_token_id", 0, kMaxToken);
  return config;
}

}  // namespace

GenerationConfig GenerationConfig::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "generation_config.json";
  if (!file_exists(path)) return {};
  return read_config(JsonObject::read(path, ErrorCode::kBadConfig));
}

GenerationConfig GenerationConfig::parse(std::string_view json_text,
                                         const std::string& name_for_errors) {
  return read_config(JsonObject::parse(json_text, name_for_errors, ErrorCode::kBadConfig));
}

}  // namespace tessera
