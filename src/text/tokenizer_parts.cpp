#include "text/tokenizer_parts.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "text/tokenizer_json.h"

namespace tessera::text {

namespace {

using Json = nlohmann::json;

const Json& member_or_null(const Json& object, const char* name) {
  static const Json kNull;
  const auto member = object.find(name);
  return member == object.end() ? kNull : *member;
}

void check_normalizer(const Json& json) {
  if (json.is_null()) return;
  const std::string type = string_member(json, "normalizer", "type");
  if (type != "Sequence") fail(ErrorCode::kUnsupported, "normalizer: '{}' is not supported", type);
  for (const Json& step : member_or_null(json, "normalizers")) check_normalizer(step);
}

void check_decoder(const Json& json) {
  if (json.is_null()) {
    fail(ErrorCode::kUnsupported, "decoder: without ByteLevel it is not supported");
  }
  const std::string type = string_member(json, "decoder", "type");
  if (type != "ByteLevel") fail(ErrorCode::kUnsupported, "decoder: '{}' is not supported", type);
}

void check_model(const Json& json) {
  constexpr std::string_view kWhere = "model";
  if (!json.is_object()) fail(ErrorCode::kBadTokenizer, "the object 'model' is missing");
  // Files older than the "type" member are BPE by their merges.
  const Json& type = member_or_null(json, "type");
  if (!type.is_null() && type != "BPE") {
    fail(ErrorCode::kUnsupported, "model: the type {} is not supported, only \"BPE\"", type.dump());
  }
  // unk_token and fuse_unk never act: a byte that the vocabulary lacks is an error here.
  refuse_unknown_members(
      json, kWhere,
      {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
       "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  const Json& dropout = member_or_null(json, "dropout");
  if (!dropout.is_null() && dropout != 0) {
    fail(ErrorCode::kUnsupported, "model: 'dropout' is not supported");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& affix = member_or_null(json, name);
    if (!affix.is_null() && affix != "") {
      fail(ErrorCode::kUnsupported, "model: '{}' is not supported", name);
    }
  }
  if (bool_member(json, kWhere, "byte_fallback", false)) {
    fail(ErrorCode::kUnsupported, "model: 'byte_fallback' is not supported");
  }
}

AddedToken added_token(const Json& json, const Vocabulary& vocabulary) {
  constexpr std::string_view kWhere = "added_tokens";
  AddedToken token;
  token.content = string_member(json, kWhere, "content");
  refuse_unknown_members(
      json, kWhere, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  token.is_special = bool_member(json, kWhere, "special", false);
  token.is_control = is_control_token(token.content, token.is_special);
  token.single_word = bool_member(json, kWhere, "single_word", false);
  token.lstrip = bool_member(json, kWhere, "lstrip", false);
  token.rstrip = bool_member(json, kWhere, "rstrip", false);
  token.normalized = bool_member(json, kWhere, "normalized", !token.is_special);

  const Json& id = member_or_null(json, "id");
  if (!id.is_number_integer() || id < 0 || id >= INT32_MAX) {
    fail(ErrorCode::kBadTokenizer, "added_tokens: '{}' has no valid id", token.content);
  }
  token.id = id.get<std::int32_t>();
  const std::int32_t vocabulary_id = vocabulary.id_of(token.content);
  const bool clashes = vocabulary_id >= 0 ? vocabulary_id != token.id : vocabulary.has(token.id);
  if (clashes) {
    fail(ErrorCode::kBadTokenizer, "added_tokens: '{}' and model.vocab disagree about the id {}",
         token.content, token.id);
  }
  return token;
}

std::vector<AddedToken> read_added_tokens(const Json& list, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) fail(ErrorCode::kBadTokenizer, "'added_tokens' is not a list");
  for (const Json& entry : list) {
    AddedToken token = added_token(entry, vocabulary);
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

// The token that a TemplateProcessing puts in front of the text; nothing else may be in its
// template.
std::string template_bos(const Json& json) {
  constexpr std::string_view kWhere = "post_processor TemplateProcessing";
  const Json& single = member_or_null(json, "single");
  const auto holds = [&single](std::size_t index, const char* kind) {
    return single[index].is_object() && single[index].contains(kind);
  };
  const bool has_text_last = single.is_array() && !single.empty() && single.size() <= 2 &&
                             holds(single.size() - 1, "Sequence");
  if (!has_text_last || (single.size() == 2 && !holds(0, "SpecialToken"))) {
    fail(ErrorCode::kUnsupported, "{}: only one token in front of the text is supported", kWhere);
  }
  if (single.size() == 1) return "";
  return string_member(single[0]["SpecialToken"], kWhere, "id");
}

std::string post_processor_bos(const Json& json) {
  if (json.is_null()) return "";
  const std::string type = string_member(json, "post_processor", "type");
  if (type == "ByteLevel") return "";  // concerns offsets alone
  if (type == "TemplateProcessing") return template_bos(json);
  if (type != "Sequence")
    fail(ErrorCode::kUnsupported, "post_processor: '{}' is not supported", type);
  std::string bos;
  for (const Json& step : member_or_null(json, "processors")) {
    std::string found = post_processor_bos(step);
    if (!found.empty() && !bos.empty()) {
      fail(ErrorCode::kUnsupported,
           "post_processor: two TemplateProcessing steps are not supported");
    }
    if (!found.empty()) bos = std::move(found);
  }
  return bos;
}

}  // namespace

std::unique_ptr<Tokenizer::Parts> Tokenizer::Parts::from_json(std::string_view json) {
  TokenizerJson file = parse_tokenizer_json(json);
  const Json& rest = file.rest;
  // Truncation and padding are the caller's business here, as in transformers.
  refuse_unknown_members(rest, "the tokenizer",
                         {"version", "truncation", "padding", "added_tokens", "normalizer",
                          "pre_tokenizer", "post_processor", "decoder", "model"});
  const Json& model = member_or_null(rest, "model");
  check_model(model);
  check_normalizer(member_or_null(rest, "normalizer"));
  check_decoder(member_or_null(rest, "decoder"));
  const std::string bos = post_processor_bos(member_or_null(rest, "post_processor"));

  Vocabulary vocabulary(std::move(file.vocab));
  AddedTokenFinder finder(read_added_tokens(member_or_null(rest, "added_tokens"), vocabulary));
  std::vector<std::int32_t> control_ids;
  for (const AddedToken& token : finder.tokens()) {
    if (token.is_control) control_ids.push_back(token.id);
  }
  Bpe bpe(vocabulary, file.merges, bool_member(model, "model", "ignore_merges", false),
          control_ids);

  auto parts =
      std::make_unique<Parts>(Parts{std::move(vocabulary),
                                    std::move(finder),
                                    PreTokenizer::from_json(member_or_null(rest, "pre_tokenizer")),
                                    std::move(bpe),
                                    {},
                                    {},
                                    {}});
  const std::vector<AddedToken>& tokens = parts->added_tokens.tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool is_new_id = parts->added_by_id.emplace(tokens[i].id, i).second;
    const bool is_new_content = parts->added_by_content.emplace(tokens[i].content, i).second;
    if (!is_new_id || !is_new_content) {
      fail(ErrorCode::kBadTokenizer, "added_tokens: '{}' or its id {} is there twice",
           tokens[i].content, tokens[i].id);
    }
  }
  if (!bos.empty()) {
    const auto found = parts->added_by_content.find(bos);
    if (found == parts->added_by_content.end()) {
      fail(ErrorCode::kBadTokenizer, "post_processor: '{}' is not an added token", bos);
    }
    parts->template_bos_id = tokens[found->second].id;
  }
  return parts;
}

}  // namespace tessera::text
