// parse_json(): builds the value from the events of a SAX parser. The events give what the parser
// that builds values itself does not: repeated keys, the depth, and the position of every error.
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "io/json_file.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace tessera {

namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;  // model files nest four or five deep

struct Position {
  std::size_t line, column;  // from 1, in bytes
};

Position position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  return {1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')),
          1 + (newline == std::string_view::npos ? offset : offset - newline - 1)};
}

class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override { return enter(json::object()); }
  bool start_array(std::size_t) override { return enter(json::array()); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(string_t& key) override {
    const auto [place, is_new] = open_.back()->get_ref<json::object_t&>().emplace(key, nullptr);
    if (!is_new) {
      fail(ErrorCode::kBadJson,
           "{}: the key {} stands twice in the same object; remove one of them", name_,
           in_quotes(key));
    }
    slot_ = &place->second;
    return true;
  }

  bool parse_error(std::size_t bytes_read, const std::string&,
                   const json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    const auto [line, column] = position_of(text_, std::min(bytes_read, text_.size() + 1) - 1);
    if (error.id == kNumberOverflow) {
      fail(ErrorCode::kBadJson, "{}: line {}, column {}: the number is too large", name_, line,
           column);
    }
    if (bytes_read > text_.size()) {
      fail(ErrorCode::kBadJson,
           "{}: line {}, column {}: the JSON text ends too early; download the file again", name_,
           line, column);
    }
    fail(ErrorCode::kBadJson,
         "{}: line {}, column {}: this is not valid JSON; correct it or download the file again",
         name_, line, column);
  }

 private:
  template <typename T>
  bool add(T&& value) {
    place(json(std::forward<T>(value)));
    return true;
  }

  json* place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool enter(json value) {
    if (open_.size() == kMaxDepth) {
      fail(ErrorCode::kBadJson, "{}: the JSON text nests deeper than {} levels", name_, kMaxDepth);
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool leave() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& name_;
  json root_;
  std::vector<json*> open_;  // the objects and arrays around the current position
  json* slot_ = nullptr;     // where the value of the last key goes
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& name) {
  Builder builder(text, name);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

nlohmann::json read_json_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                    file.name());
}

}  // namespace tessera
