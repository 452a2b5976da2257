// The values of chat templates: those of Jinja, strings with marks on what users wrote.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/marked_text.h"

namespace tessera::text {

class Value;

// A name, attribute or item that is not there; prints as nothing.
struct Undefined {
  std::string name;
};

using List = std::vector<Value>;
using Dict = std::vector<std::pair<MarkedText, Value>>;  // in order of insertion; keys differ

// What namespace() makes; the only value that changes.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

// The `loop` of a for statement.
struct Loop {
  std::shared_ptr<const List> items;
  std::size_t index0 = 0;
};

// A global function, or a method with what it belongs to.
struct Callable {
  std::string name;
  std::shared_ptr<const Value> self;  // null for a global
};

// Cheap to copy: what is large is shared and immutable.
class Value {
 public:
  // Lists and dicts nest at most this deep.
  static constexpr int kMaxDepth = 100;

  Value() : data_(Undefined{}) {}
  static Value none();
  static Value undefined(std::string name);
  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  static Value real(double value);
  static Value string(MarkedText text);
  static Value string(std::string text) { return string(MarkedText{std::move(text), {}}); }
  static Value list(List items);  // Error(kBadTemplate) where nesting is too deep
  static Value dict(Dict items);  // likewise
  static Value space(std::shared_ptr<Namespace> space);
  static Value loop(std::shared_ptr<const Loop> loop);
  static Value callable(Callable callable);

  // Strings below are a user's where marks_strings.
  static Value from_json(const nlohmann::ordered_json& json, bool marks_strings);

  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return std::holds_alternative<std::monostate>(data_); }
  const Undefined* as_undefined() const { return get<Undefined>(); }
  const bool* as_boolean() const { return get<bool>(); }
  const std::int64_t* as_integer() const { return get<std::int64_t>(); }
  const double* as_real() const { return get<double>(); }
  const MarkedText* as_string() const { return shared<const MarkedText>(); }
  const List* as_list() const { return shared<const List>(); }
  const Dict* as_dict() const { return shared<const Dict>(); }
  Namespace* as_space() const { return shared<Namespace>(); }
  const Loop* as_loop() const { return shared<const Loop>(); }
  const Callable* as_callable() const { return get<Callable>(); }
  std::shared_ptr<const List> shared_list() const;

  std::string_view type_name() const;  // for errors: "a string", "a list", ...
  int depth() const { return depth_; }
  bool is_true() const;
  bool is_data() const;  // not a namespace, a loop or a function

 private:
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  template <typename T>
  T* shared() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  std::variant<Undefined, std::monostate, bool, std::int64_t, double,
               std::shared_ptr<const MarkedText>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<const Loop>,
               Callable>
      data_;
  int depth_ = 0;  // of nested lists and dicts
};

// Python's ==.
bool equal(const Value& left, const Value& right);

// The value of a key; null where it is missing.
const Value* find(const Dict& dict, std::string_view key);

}  // namespace tessera::text
