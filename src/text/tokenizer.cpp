#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "io/text_file.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

namespace tessera::text {

namespace {

using Json = nlohmann::json;

// The content of bos_token or eos_token: a string, or an object that describes the token.
std::optional<std::string> token_member(const Json& config, const char* name) {
  const auto member = config.find(name);
  if (member == config.end() || member->is_null()) return std::nullopt;
  if (member->is_string()) return member->get<std::string>();
  return string_member(*member, name, "content");
}

MarkedText marked(std::string_view text, SpecialTokens mode) {
  std::string valid = replace_invalid_utf8(text);
  return mode == SpecialTokens::kPlain ? MarkedText::from_user(std::move(valid))
                                       : MarkedText{std::move(valid), {}};
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)),
      bos_id_(parts_->template_bos_id),
      add_bos_(parts_->template_bos_id.has_value()) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& model_folder) {
  const std::filesystem::path path = model_folder / "tokenizer.json";
  if (!file_exists(path)) {
    fail(ErrorCode::kFileNotFound,
         "the model folder '{}' has no tokenizer.json; download it along with the weights",
         model_folder.string());
  }
  Tokenizer tokenizer = parse(read_text_file(path), path.string());
  const std::filesystem::path config = model_folder / "tokenizer_config.json";
  if (file_exists(config)) {
    tokenizer.read_config(read_text_file(config), config.string());
  }
  return tokenizer;
}

Tokenizer Tokenizer::parse(std::string_view tokenizer_json, std::string name) {
  try {
    return Tokenizer(Parts::from_json(tokenizer_json));
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name, error.what());
  }
}

void Tokenizer::read_config(std::string_view json, const std::string& name) {
  const Json config = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) fail(ErrorCode::kBadJson, "{}: not a JSON object", name);
  const auto id_of_member = [&](const char* member) -> std::optional<std::int32_t> {
    const std::optional<std::string> content = token_member(config, member);
    if (!content) return std::nullopt;
    const std::optional<std::int32_t> id = id_of(*content);
    if (!id) {
      fail(ErrorCode::kBadTokenizer, "the {} '{}' is not in tokenizer.json", member, *content);
    }
    return id;
  };
  try {
    if (const auto bos = id_of_member("bos_token")) bos_id_ = bos;
    eos_id_ = id_of_member("eos_token");
    add_bos_ = bool_member(config, "the configuration", "add_bos_token", add_bos_);
    if (bool_member(config, "the configuration", "add_eos_token", false)) {
      fail(ErrorCode::kUnsupported, "'add_eos_token': true is not supported; a prompt must go on");
    }
    if (add_bos_ && !bos_id_) {
      fail(ErrorCode::kBadTokenizer, "'add_bos_token' is true, but there is no bos_token");
    }
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name, error.what());
  }
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialTokens mode) const {
  return encode(marked(text, mode));
}

std::vector<std::int32_t> Tokenizer::encode(const MarkedText& text) const {
  const MarkedText valid = replace_invalid_utf8(text);
  std::vector<std::int32_t> ids;
  PreTokenizer::Scratch scratch(parts_->pre_tokenizer);
  Bpe::Cache cache;
  std::vector<std::string_view> pieces;
  for (const AddedTokenSpan& span : parts_->added_tokens.split(valid)) {
    if (span.id >= 0) {
      ids.push_back(span.id);
      continue;
    }
    pieces.clear();
    const std::string_view bytes = valid.text;
    parts_->pre_tokenizer.split(bytes.substr(span.bytes.begin, span.bytes.end - span.bytes.begin),
                                scratch, pieces);
    for (std::string_view piece : pieces) parts_->bpe.encode(piece, cache, ids);
  }
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_prompt(std::string_view text,
                                                   SpecialTokens mode) const {
  return encode_prompt(marked(text, mode));
}

std::vector<std::int32_t> Tokenizer::encode_prompt(const MarkedText& text) const {
  std::vector<std::int32_t> ids = encode(text);
  if (add_bos_ && (ids.empty() || ids.front() != *bos_id_)) ids.insert(ids.begin(), *bos_id_);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    const std::string_view token = bytes_of(id);
    if (!skip_special || !is_special(id)) bytes += token;
  }
  return replace_invalid_utf8(bytes);
}

std::string_view Tokenizer::bytes_of(std::int32_t id) const {
  if (const AddedToken* added = parts_->added(id)) return added->content;
  if (!parts_->vocabulary.has(id)) {
    fail(ErrorCode::kInvalidArgument, "the token id {} is not in the vocabulary (0 to {})", id,
         vocab_size() - 1);
  }
  return parts_->vocabulary.bytes_of(id);
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  const auto added = parts_->added_by_content.find(std::string(token));
  if (added != parts_->added_by_content.end()) {
    return parts_->added_tokens.tokens()[added->second].id;
  }
  const std::int32_t id = parts_->vocabulary.id_of(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::int32_t Tokenizer::vocab_size() const {
  std::int32_t size = parts_->vocabulary.size();
  for (const AddedToken& token : parts_->added_tokens.tokens()) size = std::max(size, token.id + 1);
  return size;
}

bool Tokenizer::has(std::int32_t id) const {
  return parts_->added(id) != nullptr || parts_->vocabulary.has(id);
}

bool Tokenizer::is_special(std::int32_t id) const {
  const AddedToken* added = parts_->added(id);
  return added != nullptr && added->is_special;
}

std::string Tokenizer::bos_token() const {
  return bos_id_ ? std::string(bytes_of(*bos_id_)) : std::string();
}

std::string Tokenizer::eos_token() const {
  return eos_id_ ? std::string(bytes_of(*eos_id_)) : std::string();
}

}  // namespace tessera::text
