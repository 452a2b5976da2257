#include "io/json_file.h"

#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "io/quote.h"

namespace tessera {

namespace {

using nlohmann::json;

std::string describe(const json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return value.dump();
}

std::string int_rule(std::int64_t min, std::int64_t max) {
  if (max == JsonObject::kMaxInt) return fmt::format("an integer from {} up", min);
  return fmt::format("an integer from {} to {}", min, max);
}

}  // namespace

JsonObject::JsonObject(std::shared_ptr<const json> root, std::string name, ErrorCode value_error)
    : root_(std::move(root)),
      object_(root_.get()),
      name_(std::move(name)),
      value_error_(value_error) {
  if (!object_->is_object()) {
    fail(value_error_, "{}: must hold a JSON object, not {}", name_,
         object_->is_array() ? "an array" : "a single value");
  }
}

JsonObject JsonObject::parse(std::string_view text, const std::string& name,
                             ErrorCode value_error) {
  return JsonObject(std::make_shared<const json>(parse_json(text, name)), name, value_error);
}

JsonObject JsonObject::read(const std::filesystem::path& path, ErrorCode value_error) {
  return JsonObject(std::make_shared<const json>(read_json_file(path)), path.string(), value_error);
}

const json* JsonObject::find(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::has(std::string_view key) const {
  return find(key) != nullptr;
}

bool JsonObject::mentions(std::string_view key) const {
  return object_->contains(key);
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_->items()) keys.push_back(key);
  return keys;
}

std::string JsonObject::full_key(std::string_view key) const {
  return prefix_ + std::string(key);
}

void JsonObject::fail_missing(std::string_view key) const {
  fail(value_error_, "{}: {} is {}, but it is needed", name_, in_quotes(full_key(key)),
       mentions(key) ? "null" : "missing");
}

void JsonObject::refuse(std::string_view key, std::string_view rule) const {
  const json* value = find(key);
  if (value == nullptr) fail_missing(key);
  fail(value_error_, "{}: {} must be {}, not {}", name_, in_quotes(full_key(key)), rule,
       describe(*value));
}

std::int64_t JsonObject::to_int(const json& value, std::string_view key, std::int64_t min,
                                std::int64_t max) const {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMaxInt)) &&
                    value.get<std::int64_t>() >= min && value.get<std::int64_t>() <= max;
  if (!fits) {
    fail(value_error_, "{}: {} must be {}, not {}", name_, in_quotes(full_key(key)),
         int_rule(min, max), describe(value));
  }
  return value.get<std::int64_t>();
}

std::int64_t JsonObject::required_int(std::string_view key, std::int64_t min,
                                      std::int64_t max) const {
  const auto value = optional_int(key, min, max);
  if (!value) fail_missing(key);
  return *value;
}

std::optional<std::int64_t> JsonObject::optional_int(std::string_view key, std::int64_t min,
                                                     std::int64_t max) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return to_int(*value, key, min, max);
}

std::vector<std::int64_t> JsonObject::int_or_list(std::string_view key, std::int64_t min,
                                                  std::int64_t max) const {
  const json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return {to_int(*value, key, min, max)};
  std::vector<std::int64_t> list;
  for (std::size_t i = 0; i < value->size(); ++i) {
    list.push_back(to_int((*value)[i], fmt::format("{}[{}]", key, i), min, max));
  }
  return list;
}

double JsonObject::to_number(const json& value, std::string_view key) const {
  // The parser refuses literals that are not finite.
  if (!value.is_number()) {
    fail(value_error_, "{}: {} must be a number, not {}", name_, in_quotes(full_key(key)),
         describe(value));
  }
  return value.get<double>();
}

double JsonObject::required_number(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) fail_missing(key);
  return to_number(*value, key);
}

std::optional<double> JsonObject::optional_number(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return to_number(*value, key);
}

double JsonObject::required_positive(std::string_view key) const {
  const double value = required_number(key);
  if (!(value > 0)) refuse(key, "a number greater than 0");
  return value;
}

std::optional<double> JsonObject::optional_positive(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return required_positive(key);
}

std::vector<double> JsonObject::required_numbers(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) fail_missing(key);
  if (!value->is_array()) refuse(key, "an array of numbers");
  std::vector<double> numbers;
  for (std::size_t i = 0; i < value->size(); ++i) {
    numbers.push_back(to_number((*value)[i], fmt::format("{}[{}]", key, i)));
  }
  return numbers;
}

std::optional<bool> JsonObject::optional_bool(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string JsonObject::required_string(std::string_view key) const {
  const auto value = optional_string(key);
  if (!value) fail_missing(key);
  return *value;
}

std::optional<std::string> JsonObject::optional_string(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "a string");
  return value->get<std::string>();
}

std::vector<std::string> JsonObject::optional_strings(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) refuse(key, "an array of strings");
  std::vector<std::string> strings;
  for (const json& item : *value) {
    if (!item.is_string()) {
      fail(value_error_, "{}: {} must be an array of strings, but holds {}", name_,
           in_quotes(full_key(key)), describe(item));
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

JsonObject JsonObject::required_object(std::string_view key) const {
  auto value = optional_object(key);
  if (!value) fail_missing(key);
  return *std::move(value);
}

std::vector<JsonObject> JsonObject::required_objects(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) fail_missing(key);
  if (!value->is_array()) refuse(key, "an array of objects");
  std::vector<JsonObject> objects;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const json& item = (*value)[i];
    if (!item.is_object()) {
      fail(value_error_, "{}: {} must be an array of objects, but holds {}", name_,
           in_quotes(full_key(key)), describe(item));
    }
    JsonObject& nested = objects.emplace_back(*this);
    nested.object_ = &item;
    nested.prefix_ = fmt::format("{}[{}].", full_key(key), i);
  }
  return objects;
}

std::optional<JsonObject> JsonObject::optional_object(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse(key, "an object");
  JsonObject nested = *this;
  nested.object_ = value;
  nested.prefix_ = full_key(key) + ".";
  return nested;
}

}  // namespace tessera
