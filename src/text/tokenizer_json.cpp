#include "text/tokenizer_json.h"

#include <algorithm>

#include "base/fail.h"

namespace tessera::text {

namespace {

using Json = nlohmann::json;
using Event = Json::parse_event_t;

// Diverts the members of model.vocab and the elements of model.merges while the parser builds the rest.
class Collector {
 public:
  explicit Collector(TokenizerJson& file) : file_(file) {}

  // The parser's callback: false leaves the value out.
  bool operator()(int depth, Event event, Json& parsed) {
    switch (event) {
      case Event::key:
        if (depth == 1) in_model_ = parsed == "model";
        if (depth == 2) list_ = list_of(parsed.get_ref<const std::string&>());
        if (depth == 3 && list_ == List::kVocab) token_ = parsed.get_ref<const std::string&>();
        return true;
      case Event::value:
        if (depth == 3 && list_ == List::kVocab) return take_token(parsed);
        if (depth == 3 && list_ == List::kMerges) return take_merge(parsed);
        return true;
      case Event::array_end:
        if (depth == 3 && list_ == List::kMerges) return take_merge_pair(parsed);
        return true;
      case Event::object_start:
      case Event::object_end:
      case Event::array_start:
        return true;
    }
    return true;
  }

 private:
  enum class List { kNone, kVocab, kMerges };

  List list_of(const std::string& name) const {
    if (!in_model_) return List::kNone;
    return name == "vocab" ? List::kVocab : name == "merges" ? List::kMerges : List::kNone;
  }

  bool take_token(const Json& id) {
    if (!id.is_number_integer()) {
      fail(ErrorCode::kBadTokenizer, "model.vocab: the id of '{}' is not an integer", token_);
    }
    file_.vocab.emplace_back(std::move(token_), id.get<std::int64_t>());
    return false;
  }

  bool take_merge(const Json& merge) {
    if (!merge.is_string()) fail(ErrorCode::kBadTokenizer, "model.merges: an entry is not a string");
    const auto& text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      fail(ErrorCode::kBadTokenizer, "model.merges: '{}' is not two tokens with one space between",
           text);
    }
    file_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return false;
  }

  bool take_merge_pair(const Json& pair) {
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      fail(ErrorCode::kBadTokenizer, "model.merges: an entry is not a pair of strings");
    }
    file_.merges.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
    return false;
  }

  TokenizerJson& file_;
  bool in_model_ = false;
  List list_ = List::kNone;
  std::string token_;
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view json) {
  TokenizerJson file;
  Collector collector(file);
  try {
    file.rest = Json::parse(json.begin(), json.end(), std::ref(collector));
  } catch (const Json::parse_error& error) {
    fail(ErrorCode::kBadTokenizer, "not valid JSON at byte {}", error.byte);
  }
  if (!file.rest.is_object()) fail(ErrorCode::kBadTokenizer, "not a JSON object");
  return file;
}

void refuse_unknown_members(const Json& object, std::string_view where,
                            std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(ErrorCode::kUnsupported, "{}: '{}' is not supported", where, name);
    }
  }
}

bool bool_member(const Json& object, std::string_view where, const char* name, bool absent) {
  const auto member = object.find(name);
  if (member == object.end()) return absent;
  if (!member->is_boolean()) {
    fail(ErrorCode::kBadTokenizer, "{}: '{}' is neither true nor false", where, name);
  }
  return member->get<bool>();
}

std::string string_member(const Json& object, std::string_view where, const char* name) {
  const auto member = object.is_object() ? object.find(name) : object.end();
  if (member == object.end() || !member->is_string()) {
    fail(ErrorCode::kBadTokenizer, "{}: the string '{}' is missing", where, name);
  }
  return member->get<std::string>();
}

}  // namespace tessera::text
