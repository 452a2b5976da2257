#include "model/synth/gguf_vocabulary.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "io/text_file.h"
#include "text/added_tokens.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace tessera {

namespace {

// Kinds of tokens, by their numbers in the file.
constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;
constexpr std::int32_t kUnused = 5;

struct Tokens {
  std::vector<std::string> spellings;
  std::vector<std::int32_t> kinds;
  std::vector<std::string> merges;

  // All unused.
  explicit Tokens(std::int64_t n) : kinds(static_cast<std::size_t>(n), kUnused) {
    for (std::int64_t id = 0; id < n; ++id) spellings.push_back(fmt::format("[PAD{}]", id));
  }

  void set(std::int64_t id, const std::string& spelling, std::int32_t kind) {
    if (id < 0 || id >= std::ssize(spellings)) {
      fail(ErrorCode::kBadTokenizer,
           "the tokenizer has the id {}, but the vocabulary of the model ends at {}", id,
           std::ssize(spellings) - 1);
    }
    spellings[static_cast<std::size_t>(id)] = spelling;
    kinds[static_cast<std::size_t>(id)] = kind;
  }
};

Tokens of_bytes(std::int64_t n) {
  Tokens tokens(n);
  for (std::int64_t id = 0; id < std::min<std::int64_t>(n, 256); ++id) {
    tokens.set(id, text::spelling_of(static_cast<unsigned char>(id)), kNormal);
  }
  // Readers want a list of merges that is not empty.
  const std::string space = text::spelling_of(' ');
  if (n > 256) tokens.set(256, space + space, kNormal);
  tokens.merges = {space + " " + space};
  return tokens;
}

Tokens of_file(const std::string& json, std::int64_t n) {
  Tokens tokens(n);
  const text::TokenizerJson file = text::parse_tokenizer_json(json);
  for (const auto& [spelling, id] : file.vocab) tokens.set(id, spelling, kNormal);
  for (const auto& [left, right] : file.merges) tokens.merges.push_back(left + " " + right);
  if (!file.rest.contains("added_tokens")) return tokens;
  for (const nlohmann::json& added : file.rest.at("added_tokens")) {
    const std::string content = text::string_member(added, "added_tokens", "content");
    const bool special = text::bool_member(added, "added_tokens", "special", false);
    tokens.set(added.at("id").get<std::int64_t>(), content,
               text::is_control_token(content, special) ? kControl : kUserDefined);
  }
  return tokens;
}

}  // namespace

void add_vocabulary(GgufMetadata& metadata, const ModelConfig& config,
                    const std::optional<std::filesystem::path>& tokenizer_folder,
                    std::string_view pre_tokenizer) {
  bool add_bos = false;
  Tokens tokens = of_bytes(config.vocab_size);
  if (tokenizer_folder) {
    add_bos = text::Tokenizer::load(*tokenizer_folder).add_bos();  // also checks the file
    tokens = of_file(read_text_file(*tokenizer_folder / "tokenizer.json"), config.vocab_size);
  }
  metadata.add("tokenizer.ggml.model", "gpt2");
  metadata.add("tokenizer.ggml.pre", pre_tokenizer);
  metadata.add("tokenizer.ggml.tokens", tokens.spellings);
  metadata.add("tokenizer.ggml.token_type", tokens.kinds);
  metadata.add("tokenizer.ggml.merges", tokens.merges);
  const auto add_id = [&](std::string_view key, std::int64_t id) {
    metadata.add(key, static_cast<std::uint32_t>(id));
  };
  if (config.bos_token_id) add_id("tokenizer.ggml.bos_token_id", *config.bos_token_id);
  if (!config.eos_token_ids.empty()) {
    add_id("tokenizer.ggml.eos_token_id", config.eos_token_ids.front());
  }
  metadata.add("tokenizer.ggml.add_bos_token", add_bos);
}

}  // namespace tessera
