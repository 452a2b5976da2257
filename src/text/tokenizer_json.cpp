#include "text/tokenizer_json.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/fail.h"

namespace tessera::text {

namespace {

using Json = nlohmann::json;

// Builds `rest` from the parser's events and diverts the entries of model.vocab and model.merges,
// for which a tree of JSON values would take most of the loading time.
class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(TokenizerJson& file) : file_(file) { open_.push_back({&file.rest, ""}); }

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return integer(number); }
  bool number_unsigned(number_unsigned_t number) override {
    return integer(static_cast<std::int64_t>(std::min<number_unsigned_t>(number, INT64_MAX)));
  }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool binary(binary_t&) override { return false; }  // JSON text has none

  bool string(string_t& text) override {
    if (list_ != List::kMerges) return value(std::move(text));
    if (!in_pair_) return take_merge(text);
    pair_.push_back(std::move(text));
    return true;
  }

  bool key(string_t& name) override {
    if (list_ == List::kVocab) {
      token_ = std::move(name);
    } else {
      open_.back().key = std::move(name);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (list_ == List::kNone && at_model_member("vocab")) {
      list_ = List::kVocab;
      return true;
    }
    return open(Json::object());
  }
  bool end_object() override {
    if (list_ == List::kVocab) return leave_list();
    return close();
  }

  bool start_array(std::size_t) override {
    if (list_ == List::kMerges && !in_pair_) {
      in_pair_ = true;
      pair_.clear();
      return true;
    }
    if (list_ == List::kNone && at_model_member("merges")) {
      list_ = List::kMerges;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (in_pair_) return take_merge_pair();
    if (list_ == List::kMerges) return leave_list();
    return close();
  }

  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::json::exception&) override {
    fail(ErrorCode::kBadTokenizer, "not valid JSON at byte {}", byte);
  }

 private:
  enum class List { kNone, kVocab, kMerges };

  // An object or array under construction; key is that of the member being read.
  struct Open {
    Json* json;
    std::string key;
  };

  bool at_model_member(std::string_view name) const {
    return open_.size() == 3 && open_[1].key == "model" && open_[2].key == name;
  }

  Json& put(Json json) {
    refuse_in_list();
    Json& parent = *open_.back().json;
    if (open_.size() == 1) return parent = std::move(json);
    if (parent.is_array()) {
      parent.push_back(std::move(json));
      return parent.back();
    }
    return parent[open_.back().key] = std::move(json);
  }

  bool value(Json json) {
    put(std::move(json));
    return true;
  }

  bool open(Json json) {
    open_.push_back({&put(std::move(json)), ""});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool leave_list() {
    list_ = List::kNone;
    return true;
  }

  bool integer(std::int64_t number) {
    if (list_ != List::kVocab) return value(number);
    file_.vocab.emplace_back(std::move(token_), number);
    return true;
  }

  bool take_merge(const std::string& text) {
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      fail(ErrorCode::kBadTokenizer, "model.merges: '{}' is not two tokens with one space between",
           text);
    }
    file_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return true;
  }

  bool take_merge_pair() {
    in_pair_ = false;
    if (pair_.size() != 2) refuse_in_list();
    file_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    return true;
  }

  void refuse_in_list() const {
    if (list_ == List::kVocab) {
      fail(ErrorCode::kBadTokenizer, "model.vocab: the id of '{}' is not an integer", token_);
    }
    if (list_ == List::kMerges) {
      fail(ErrorCode::kBadTokenizer,
           "model.merges: an entry is neither a string nor a pair of them");
    }
  }

  TokenizerJson& file_;
  std::vector<Open> open_;
  List list_ = List::kNone;
  std::string token_;     // the key last read in model.vocab
  bool in_pair_ = false;  // inside one entry of model.merges
  std::vector<std::string> pair_;
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view json) {
  TokenizerJson file;
  Reader reader(file);
  Json::sax_parse(json.begin(), json.end(), &reader);
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
