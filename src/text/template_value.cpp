#include "text/template_value.h"

#include <algorithm>

#include "base/fail.h"
#include "text/utf8.h"

namespace tessera::text {

namespace {

// Containers hold data only: what could refer back to its container would make a cycle.
int item_depth(const Value& item) {
  if (!item.is_data()) {
    fail(ErrorCode::kBadTemplate,
         "chat template: {} cannot be kept in a list, mapping or namespace", item.type_name());
  }
  return item.depth();
}

int checked_depth(int deepest_child) {
  if (deepest_child + 1 > Value::kMaxDepth) {
    fail(ErrorCode::kBadTemplate, "chat template: lists or mappings nest deeper than {} levels",
         Value::kMaxDepth);
  }
  return deepest_child + 1;
}

// Numbers, booleans among them, as one type; none for other values.
bool as_number(const Value& value, double& number) {
  if (const bool* boolean = value.as_boolean()) {
    number = *boolean ? 1 : 0;
  } else if (const std::int64_t* integer = value.as_integer()) {
    number = static_cast<double>(*integer);
  } else if (const double* real = value.as_real()) {
    number = *real;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Value Value::none() {
  Value value;
  value.data_ = std::monostate{};
  return value;
}

Value Value::undefined(std::string name) {
  Value value;
  value.data_ = Undefined{std::move(name)};
  return value;
}

Value Value::boolean(bool flag) {
  Value value;
  value.data_ = flag;
  return value;
}

Value Value::integer(std::int64_t number) {
  Value value;
  value.data_ = number;
  return value;
}

Value Value::real(double number) {
  Value value;
  value.data_ = number;
  return value;
}

Value Value::string(MarkedText text) {
  Value value;
  value.data_ = std::make_shared<const MarkedText>(std::move(text));
  return value;
}

Value Value::list(List items) {
  Value value;
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item_depth(item));
  value.depth_ = checked_depth(deepest);
  value.data_ = std::make_shared<const List>(std::move(items));
  return value;
}

Value Value::dict(Dict items) {
  Value value;
  int deepest = 0;
  for (const auto& [key, item] : items) deepest = std::max(deepest, item_depth(item));
  value.depth_ = checked_depth(deepest);
  value.data_ = std::make_shared<const Dict>(std::move(items));
  return value;
}

Value Value::space(std::shared_ptr<Namespace> space) {
  Value value;
  value.data_ = std::move(space);
  return value;
}

Value Value::loop(std::shared_ptr<const Loop> loop) {
  Value value;
  value.data_ = std::move(loop);
  return value;
}

Value Value::callable(Callable callable) {
  Value value;
  value.data_ = std::move(callable);
  return value;
}

Value Value::from_json(const nlohmann::ordered_json& json, bool marks_strings) {
  // Counts down while it descends: the depth of a finished value comes too late for the stack.
  struct Converter {
    bool marks_strings;

    MarkedText text(const std::string& text) const {
      std::string valid = replace_invalid_utf8(text);
      return marks_strings ? MarkedText::from_user(std::move(valid))
                           : MarkedText{std::move(valid), {}};
    }

    Value convert(const nlohmann::ordered_json& json, int level) const {
      switch (json.type()) {
        case nlohmann::ordered_json::value_t::boolean:
          return Value::boolean(json.get<bool>());
        case nlohmann::ordered_json::value_t::number_integer:
          return Value::integer(json.get<std::int64_t>());
        case nlohmann::ordered_json::value_t::number_unsigned: {
          const auto number = json.get<std::uint64_t>();
          if (number > INT64_MAX) return Value::real(static_cast<double>(number));
          return Value::integer(static_cast<std::int64_t>(number));
        }
        case nlohmann::ordered_json::value_t::number_float:
          return Value::real(json.get<double>());
        case nlohmann::ordered_json::value_t::string:
          return Value::string(text(json.get_ref<const std::string&>()));
        case nlohmann::ordered_json::value_t::array: {
          checked_depth(level);
          List items;
          for (const auto& item : json) items.push_back(convert(item, level + 1));
          return Value::list(std::move(items));
        }
        case nlohmann::ordered_json::value_t::object: {
          checked_depth(level);
          Dict items;
          for (const auto& [key, item] : json.items()) {
            items.emplace_back(text(key), convert(item, level + 1));
          }
          return Value::dict(std::move(items));
        }
        default:
          return Value::none();
      }
    }
  };
  return Converter{marks_strings}.convert(json, 0);
}

std::shared_ptr<const List> Value::shared_list() const {
  return std::get<std::shared_ptr<const List>>(data_);
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (as_boolean() != nullptr) return "a boolean";
  if (as_integer() != nullptr) return "an integer";
  if (as_real() != nullptr) return "a float";
  if (as_string() != nullptr) return "a string";
  if (as_list() != nullptr) return "a list";
  if (as_dict() != nullptr) return "a mapping";
  if (as_space() != nullptr) return "a namespace";
  if (as_loop() != nullptr) return "the loop variable";
  return "a function";
}

bool Value::is_data() const {
  return as_space() == nullptr && as_loop() == nullptr && as_callable() == nullptr;
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  double number = 0;
  if (as_number(*this, number)) return number != 0;
  if (const MarkedText* text = as_string()) return !text->text.empty();
  if (const List* items = as_list()) return !items->empty();
  if (const Dict* items = as_dict()) return !items->empty();
  return true;
}

bool equal(const Value& left, const Value& right) {
  if (left.is_undefined() || right.is_undefined()) {
    return left.is_undefined() && right.is_undefined();
  }
  if (left.is_none() || right.is_none()) return left.is_none() && right.is_none();
  if (left.as_integer() != nullptr && right.as_integer() != nullptr) {
    return *left.as_integer() == *right.as_integer();
  }
  double left_number = 0;
  double right_number = 0;
  if (as_number(left, left_number) && as_number(right, right_number)) {
    return left_number == right_number;
  }
  if (left.as_string() != nullptr && right.as_string() != nullptr) {
    return left.as_string()->text == right.as_string()->text;
  }
  if (left.as_list() != nullptr && right.as_list() != nullptr) {
    return std::equal(left.as_list()->begin(), left.as_list()->end(), right.as_list()->begin(),
                      right.as_list()->end(), equal);
  }
  if (left.as_dict() != nullptr && right.as_dict() != nullptr) {
    const auto is_in_right = [&right](const auto& item) {
      const Value* other = find(*right.as_dict(), item.first.text);
      return other != nullptr && equal(item.second, *other);
    };
    return left.as_dict()->size() == right.as_dict()->size() &&
           std::all_of(left.as_dict()->begin(), left.as_dict()->end(), is_in_right);
  }
  return left.as_space() != nullptr && left.as_space() == right.as_space();
}

const Value* find(const Dict& dict, std::string_view key) {
  const auto found = std::find_if(dict.begin(), dict.end(),
                                  [key](const auto& item) { return item.first.text == key; });
  return found == dict.end() ? nullptr : &found->second;
}

}  // namespace tessera::text
