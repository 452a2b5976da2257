#include "text/template_call.h"

#include <algorithm>

#include "text/template_error.h"
#include "text/template_text.h"

namespace tessera::text {

void RenderBudget::spend_steps(std::size_t n_steps, int line) {
  left_.n_steps -= static_cast<std::int64_t>(n_steps);
  if (left_.n_steps < 0) template_fail(line, "rendering takes too many steps");
}

void RenderBudget::spend_bytes(std::size_t n_bytes, int line) {
  left_.n_bytes -= static_cast<std::int64_t>(n_bytes);
  if (left_.n_bytes < 0) template_fail(line, "rendering makes too much text");
}

void Arguments::check(std::size_t n_required,
                      std::initializer_list<std::string_view> parameters) const {
  if (positional.size() > parameters.size()) {
    template_fail(line, "{} takes at most {} arguments", what, parameters.size());
  }
  for (const auto& [name, value] : keywords) {
    const auto* found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      template_fail(line, "{} with the argument '{}' is not supported", what, name);
    }
    if (found < parameters.begin() + positional.size()) {
      template_fail(line, "{} has two values for '{}'", what, name);
    }
  }
  for (std::size_t i = 0; i < n_required; ++i) {
    if (get(i, *(parameters.begin() + i)) == nullptr) {
      template_fail(line, "{} needs the argument '{}'", what, *(parameters.begin() + i));
    }
  }
}

const Value* Arguments::get(std::size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  const auto found = std::find_if(keywords.begin(), keywords.end(),
                                  [name](const auto& keyword) { return keyword.first == name; });
  return found == keywords.end() ? nullptr : &found->second;
}

std::optional<MarkedText> Arguments::string(std::size_t index, std::string_view name) const {
  const Value* value = get(index, name);
  if (value == nullptr || value->is_none()) return std::nullopt;
  if (value->as_string() == nullptr) {
    template_fail(line, "{}: '{}' is {}, not a string", what, name, value->type_name());
  }
  return *value->as_string();
}

std::optional<std::int64_t> Arguments::integer(std::size_t index, std::string_view name) const {
  const Value* value = get(index, name);
  if (value == nullptr || value->is_none()) return std::nullopt;
  if (value->as_boolean() != nullptr) return *value->as_boolean() ? 1 : 0;
  if (value->as_integer() == nullptr) {
    template_fail(line, "{}: '{}' is {}, not an integer", what, name, value->type_name());
  }
  return *value->as_integer();
}

Value iterated(const Value& value, std::string_view what, int line, RenderBudget& budget) {
  if (value.as_list() != nullptr) {
    budget.spend_steps(value.as_list()->size(), line);
    return value;
  }
  List items;
  if (const Dict* dict = value.as_dict()) {
    budget.spend_steps(dict->size(), line);
    for (const auto& [key, entry] : *dict) items.push_back(Value::string(key));
  } else if (const MarkedText* text = value.as_string()) {
    budget.spend_steps(text->text.size(), line);
    const std::vector<std::size_t> offsets = character_offsets(text->text);
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      items.push_back(Value::string(text->slice(offsets[i], offsets[i + 1])));
    }
  } else if (!value.is_undefined()) {
    template_fail(line, "{}: {} has no elements", what, value.type_name());
  }
  return Value::list(std::move(items));
}

bool contains(const Value& left, const Value& right, int line) {
  if (const MarkedText* text = right.as_string()) {
    if (left.as_string() == nullptr) {
      template_fail(line, "'in' looks for {} in a string", left.type_name());
    }
    return text->text.find(left.as_string()->text) != std::string::npos;
  }
  if (const List* items = right.as_list()) {
    return std::any_of(items->begin(), items->end(),
                       [&left](const Value& element) { return equal(left, element); });
  }
  if (const Dict* dict = right.as_dict()) {
    return left.as_string() != nullptr && find(*dict, left.as_string()->text) != nullptr;
  }
  if (right.is_undefined()) return false;
  template_fail(line, "'in' looks into {}", right.type_name());
}

}  // namespace tessera::text
