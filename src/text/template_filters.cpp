// Filters and tests.
#include <algorithm>
#include <array>

#include "text/template_call.h"
#include "text/template_error.h"
#include "text/template_text.h"

namespace tessera::text {

namespace {

Value length(const Value& value, const Arguments& arguments) {
  arguments.check(0, {});
  std::size_t n_items = 0;
  if (const MarkedText* text = value.as_string()) {
    n_items = character_offsets(text->text).size() - 1;
  } else if (const List* items = value.as_list()) {
    n_items = items->size();
  } else if (const Dict* dict = value.as_dict()) {
    n_items = dict->size();
  } else if (!value.is_undefined()) {
    template_fail(arguments.line, "{}: {} has no length", arguments.what, value.type_name());
  }
  return Value::integer(static_cast<std::int64_t>(n_items));
}

Value changed_case(const Value& value, const Arguments& arguments, bool to_upper) {
  arguments.check(0, {});
  std::optional<MarkedText> changed = change_case(to_text(value, arguments.line), to_upper);
  if (!changed) {
    template_fail(arguments.line, "{} of letters outside ASCII is not supported", arguments.what);
  }
  return Value::string(std::move(*changed));
}

Value joined(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  arguments.check(0, {"d"});
  const MarkedText separator = arguments.string(0, "d").value_or(MarkedText{});
  const Value items = iterated(value, arguments.what, arguments.line, budget);
  MarkedText text;
  bool is_first = true;
  for (const Value& element : *items.as_list()) {
    if (!is_first) text.append(separator);
    is_first = false;
    const MarkedText part = to_text(element, arguments.line);
    budget.spend_bytes(separator.text.size() + part.text.size(), arguments.line);
    text.append(part);
  }
  return Value::string(std::move(text));
}

Value end_of(const Value& value, const Arguments& arguments, RenderBudget& budget, bool is_first) {
  arguments.check(0, {});
  const Value items = iterated(value, arguments.what, arguments.line, budget);
  if (items.as_list()->empty()) return Value::undefined("an element of an empty list");
  return is_first ? items.as_list()->front() : items.as_list()->back();
}

Value json_of(const Value& value, const Arguments& arguments, RenderBudget& budget) {
  arguments.check(0, {"indent"});
  const std::optional<std::int64_t> indent = arguments.integer(0, "indent");
  if (indent && (*indent < 0 || *indent > 16)) {
    template_fail(arguments.line, "{}: an indent of {} is not supported", arguments.what, *indent);
  }
  const auto spaces = indent ? std::optional<int>(static_cast<int>(*indent)) : std::nullopt;
  return Value::string(to_json(value, spaces, arguments.line, budget));
}

}  // namespace

Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments,
                   RenderBudget& budget) {
  if (value.as_string() != nullptr) {
    budget.spend_bytes(value.as_string()->text.size(), arguments.line);
  }
  if (name == "length" || name == "count") return length(value, arguments);
  if (name == "upper" || name == "lower") return changed_case(value, arguments, name == "upper");
  if (name == "join") return joined(value, arguments, budget);
  if (name == "first" || name == "last") return end_of(value, arguments, budget, name == "first");
  if (name == "tojson") return json_of(value, arguments, budget);
  if (name == "trim") {
    arguments.check(0, {"chars"});
    const std::optional<MarkedText> characters = arguments.string(0, "chars");
    return Value::string(strip(to_text(value, arguments.line),
                               characters ? std::optional(characters->text) : std::nullopt,
                               StripSide::kBoth));
  }
  if (name == "string") {
    arguments.check(0, {});
    return Value::string(to_text(value, arguments.line));
  }
  if (name == "default" || name == "d") {
    arguments.check(0, {"default_value", "boolean"});
    const Value* boolean = arguments.get(1, "boolean");
    const bool replaces_false = boolean != nullptr && boolean->is_true();
    const bool is_kept = replaces_false ? value.is_true() : !value.is_undefined();
    if (is_kept) return value;
    const Value* replacement = arguments.get(0, "default_value");
    return replacement == nullptr ? Value::string("") : *replacement;
  }
  template_fail(arguments.line, "the filter '{}' is not supported", name);
}

bool apply_test(const std::string& name, const Value& value, const Arguments& arguments) {
  const bool takes_argument = name == "in" || name == "eq" || name == "equalto" || name == "ne";
  if (takes_argument) {
    arguments.check(1, {"other"});
    const Value& other = *arguments.get(0, "other");
    if (name == "in") return contains(value, other, arguments.line);
    return equal(value, other) == (name != "ne");
  }
  constexpr std::array<std::string_view, 14> kTests = {
      "defined", "undefined", "none",   "string", "mapping",  "true",     "false",
      "boolean", "integer",   "number", "float",  "sequence", "iterable", "callable"};
  if (std::find(kTests.begin(), kTests.end(), name) == kTests.end()) {
    template_fail(arguments.line, "the test '{}' is not supported", name);
  }
  arguments.check(0, {});
  const bool* boolean = value.as_boolean();
  const bool has_elements =
      value.as_string() != nullptr || value.as_list() != nullptr || value.as_dict() != nullptr;
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_none();
  if (name == "string") return value.as_string() != nullptr;
  if (name == "mapping") return value.as_dict() != nullptr;
  if (name == "true") return boolean != nullptr && *boolean;
  if (name == "false") return boolean != nullptr && !*boolean;
  if (name == "boolean") return boolean != nullptr;
  if (name == "integer") return value.as_integer() != nullptr;
  if (name == "float") return value.as_real() != nullptr;
  if (name == "number") {
    return boolean != nullptr || value.as_integer() != nullptr || value.as_real() != nullptr;
  }
  if (name == "callable") return value.as_callable() != nullptr;
  return has_elements || (name == "iterable" && value.is_undefined());
}

}  // namespace tessera::text
