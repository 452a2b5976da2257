// Attributes, items and slices; methods and global functions.
#include <algorithm>
#include <array>

#include "text/template_call.h"
#include "text/template_error.h"
#include "text/template_text.h"

namespace tessera::text {

namespace {

// range() of jinja's sandbox is bounded so.
constexpr std::int64_t kMaxRange = 100'000;

constexpr std::array<std::string_view, 9> kStringMethods = {
    "split", "strip", "lstrip", "rstrip", "startswith", "endswith", "upper", "lower", "replace"};
constexpr std::array<std::string_view, 4> kDictMethods = {"items", "get", "keys", "values"};

// What Python offers beyond that. To take one of these for a missing key would render something
// else.
constexpr std::array<std::string_view, 38> kOtherStringMethods = {
    "capitalize",  "casefold",   "center",       "count",        "encode",   "expandtabs",
    "find",        "format",     "format_map",   "index",        "isalnum",  "isalpha",
    "isascii",     "isdecimal",  "isdigit",      "isidentifier", "islower",  "isnumeric",
    "isprintable", "isspace",    "istitle",      "isupper",      "join",     "ljust",
    "maketrans",   "partition",  "removeprefix", "removesuffix", "rfind",    "rindex",
    "rjust",       "rpartition", "rsplit",       "splitlines",   "swapcase", "title",
    "translate",   "zfill"};
constexpr std::array<std::string_view, 7> kOtherDictMethods = {
    "clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 11> kListMethods = {"append", "clear",   "copy",   "count",
                                                           "extend", "index",   "insert", "pop",
                                                           "remove", "reverse", "sort"};

template <typename Names>
bool has_name(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value method(const Value& self, const std::string& name) {
  return Value::callable({name, std::make_shared<const Value>(self)});
}

Value loop_attribute(const Loop& loop, const std::string& name, int line) {
  const auto n_items = static_cast<std::int64_t>(loop.items->size());
  const auto index0 = static_cast<std::int64_t>(loop.index0);
  if (name == "index0") return Value::integer(index0);
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "revindex0") return Value::integer(n_items - index0 - 1);
  if (name == "revindex") return Value::integer(n_items - index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(index0 + 1 == n_items);
  if (name == "length") return Value::integer(n_items);
  if (name == "previtem") {
    return index0 == 0 ? Value::undefined("loop.previtem") : (*loop.items)[loop.index0 - 1];
  }
  if (name == "nextitem") {
    return index0 + 1 == n_items ? Value::undefined("loop.nextitem")
                                 : (*loop.items)[loop.index0 + 1];
  }
  template_fail(line, "'loop.{}' is not supported", name);
}

[[noreturn]] void fail_undefined(const Value& value, int line) {
  template_fail(line, "'{}' is undefined", value.as_undefined()->name);
}

// A method of a string or dict, or a refusal of one that is not built in; undefined for other
// names.
Value find_method(const Value& value, const std::string& name, int line) {
  const bool is_string = value.as_string() != nullptr;
  const bool is_dict = value.as_dict() != nullptr;
  if ((is_string && has_name(kStringMethods, name)) || (is_dict && has_name(kDictMethods, name))) {
    return method(value, name);
  }
  if ((is_string && has_name(kOtherStringMethods, name)) ||
      (is_dict && has_name(kOtherDictMethods, name)) ||
      (value.as_list() != nullptr && has_name(kListMethods, name))) {
    template_fail(line, "the method '{}' of {} is not supported", name, value.type_name());
  }
  return Value::undefined(name);
}

std::optional<std::int64_t> as_index(const Value& value) {
  if (value.as_integer() != nullptr) return *value.as_integer();
  if (value.as_boolean() != nullptr) return *value.as_boolean() ? 1 : 0;
  return std::nullopt;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t n_found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++n_found;
  }
  return n_found;
}

Value string_method(const MarkedText& self, const std::string& name, const Arguments& arguments,
                    RenderBudget& budget) {
  const auto plain = [&](std::size_t index, std::string_view parameter) {
    const std::optional<MarkedText> text = arguments.string(index, parameter);
    return text ? std::optional(text->text) : std::nullopt;
  };
  if (name == "split") {
    arguments.check(0, {"sep", "maxsplit"});
    const std::optional<std::string> separator = plain(0, "sep");
    if (separator && separator->empty())
      template_fail(arguments.line, "split: the separator is empty");
    List parts;
    for (MarkedText& part : split(self, separator, arguments.integer(1, "maxsplit").value_or(-1))) {
      parts.push_back(Value::string(std::move(part)));
    }
    return Value::list(std::move(parts));
  }
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    arguments.check(0, {"chars"});
    const StripSide side = name == "strip"    ? StripSide::kBoth
                           : name == "lstrip" ? StripSide::kLeft
                                              : StripSide::kRight;
    return Value::string(strip(self, plain(0, "chars"), side));
  }
  if (name == "startswith" || name == "endswith") {
    arguments.check(1, {"affix"});
    const std::optional<std::string> affix = plain(0, "affix");
    if (!affix) template_fail(arguments.line, "{}: the argument is none", arguments.what);
    return Value::boolean(name == "startswith" ? self.text.starts_with(*affix)
                                               : self.text.ends_with(*affix));
  }
  if (name == "replace") {
    arguments.check(2, {"old", "new", "count"});
    const std::optional<std::string> old_text = plain(0, "old");
    const std::optional<MarkedText> new_text = arguments.string(1, "new");
    if (!old_text || !new_text) template_fail(arguments.line, "replace: an argument is none");
    if (old_text->empty())
      template_fail(arguments.line, "replace of an empty string is not supported");
    budget.spend_bytes(count_of(self.text, *old_text) * new_text->text.size(), arguments.line);
    return Value::string(
        replace(self, *old_text, *new_text, arguments.integer(2, "count").value_or(-1)));
  }
  arguments.check(0, {});  // upper and lower
  std::optional<MarkedText> changed = change_case(self, name == "upper");
  if (!changed) {
    template_fail(arguments.line, "{} of letters outside ASCII is not supported", arguments.what);
  }
  return Value::string(std::move(*changed));
}

Value dict_method(const Dict& self, const std::string& name, const Arguments& arguments) {
  if (name == "get") {
    arguments.check(1, {"key", "default"});
    const Value& key = *arguments.get(0, "key");
    const Value* found = key.as_string() == nullptr ? nullptr : find(self, key.as_string()->text);
    const Value* fallback = arguments.get(1, "default");
    return found != nullptr ? *found : fallback != nullptr ? *fallback : Value::none();
  }
  arguments.check(0, {});
  List items;
  for (const auto& [key, value] : self) {
    if (name == "keys") items.push_back(Value::string(key));
    if (name == "values") items.push_back(value);
    if (name == "items") items.push_back(Value::list({Value::string(key), value}));
  }
  return Value::list(std::move(items));
}

Value range(const Arguments& arguments, RenderBudget& budget) {
  if (!arguments.keywords.empty() || arguments.positional.empty() ||
      arguments.positional.size() > 3) {
    template_fail(arguments.line, "range takes one to three integers");
  }
  std::array<std::int64_t, 3> bounds{};  // as given
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    const std::optional<std::int64_t> bound = arguments.integer(i, "bound");
    if (!bound) template_fail(arguments.line, "range takes one to three integers");
    bounds[i] = *bound;
  }
  const bool has_begin = arguments.positional.size() > 1;
  const std::int64_t begin = has_begin ? bounds[0] : 0;
  const std::int64_t end = has_begin ? bounds[1] : bounds[0];
  const std::int64_t step = arguments.positional.size() == 3 ? bounds[2] : 1;
  if (step == 0) template_fail(arguments.line, "range: the step is 0");
  List items;
  // In 128 bits no bound overflows.
  for (__int128 i = begin; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<std::int64_t>(items.size()) == kMaxRange) {
      template_fail(arguments.line, "range has more than {} elements", kMaxRange);
    }
    items.push_back(Value::integer(static_cast<std::int64_t>(i)));
  }
  budget.spend_steps(items.size(), arguments.line);
  return Value::list(std::move(items));
}

Value make_namespace(const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  if (!arguments.positional.empty()) {
    template_fail(arguments.line, "namespace with unnamed arguments is not supported");
  }
  for (const auto& [name, value] : arguments.keywords) {
    if (!value.is_data()) {
      template_fail(arguments.line, "{} cannot be kept in a namespace", value.type_name());
    }
    space->attributes.emplace_back(name, value);
  }
  return Value::space(std::move(space));
}

[[noreturn]] void raise_exception(const Arguments& arguments) {
  arguments.check(1, {"message"});
  // The template is sound: it is the conversation that it does not take.
  throw Error(ErrorCode::kBadTemplate,
              fmt::format("the chat template refuses the conversation: {}",
                          to_text(arguments.positional.empty() ? *arguments.get(0, "message")
                                                               : arguments.positional[0],
                                  arguments.line)
                              .text));
}

}  // namespace

Value attribute(const Value& value, const std::string& name, int line) {
  if (value.is_undefined()) fail_undefined(value, line);
  if (const Loop* loop = value.as_loop()) return loop_attribute(*loop, name, line);
  if (const Namespace* space = value.as_space()) {
    for (const auto& [key, stored] : space->attributes) {
      if (key == name) return stored;
    }
    return Value::undefined(name);
  }
  Value found = find_method(value, name, line);
  if (found.is_undefined() && value.as_dict() != nullptr) {
    if (const Value* stored = find(*value.as_dict(), name)) return *stored;
  }
  return found;
}

Value item(const Value& value, const Value& key, int line, RenderBudget& budget) {
  if (value.is_undefined()) fail_undefined(value, line);
  if (const MarkedText* name = key.as_string()) {
    if (const Dict* dict = value.as_dict()) {
      if (const Value* stored = find(*dict, name->text)) return *stored;
      return find_method(value, name->text, line);
    }
    return attribute(value, name->text, line);
  }
  const std::optional<std::int64_t> index = as_index(key);
  if (!index || (value.as_list() == nullptr && value.as_string() == nullptr)) {
    return Value::undefined("an item");
  }
  if (const List* items = value.as_list()) {
    const auto n_items = static_cast<std::int64_t>(items->size());
    const std::int64_t at = *index < 0 ? *index + n_items : *index;
    return at < 0 || at >= n_items ? Value::undefined("an item") : (*items)[at];
  }
  const MarkedText& text = *value.as_string();
  budget.spend_bytes(text.text.size(), line);
  const std::vector<std::size_t> offsets = character_offsets(text.text);
  const auto n_characters = static_cast<std::int64_t>(offsets.size()) - 1;
  const std::int64_t at = *index < 0 ? *index + n_characters : *index;
  if (at < 0 || at >= n_characters) return Value::undefined("an item");
  return Value::string(text.slice(offsets[at], offsets[at + 1]));
}

Value slice(const Value& value, const Value* begin, const Value* end, const Value* step, int line,
            RenderBudget& budget) {
  if (value.is_undefined()) fail_undefined(value, line);
  if (value.as_list() == nullptr && value.as_string() == nullptr) {
    template_fail(line, "a slice of {}", value.type_name());
  }
  const auto bound = [&](const Value* given) -> std::optional<std::int64_t> {
    if (given == nullptr || given->is_none()) return std::nullopt;
    const std::optional<std::int64_t> index = as_index(*given);
    if (!index) template_fail(line, "a slice with {} as a bound", given->type_name());
    return index;
  };
  const std::int64_t stride = bound(step).value_or(1);
  if (stride == 0) template_fail(line, "a slice with the step 0");

  std::vector<std::size_t> offsets;
  if (const MarkedText* text = value.as_string()) offsets = character_offsets(text->text);
  const auto n_items = static_cast<std::int64_t>(
      value.as_list() != nullptr ? value.as_list()->size() : offsets.size() - 1);
  budget.spend_bytes(static_cast<std::size_t>(n_items), line);
  // Python's rules: negative bounds count from the end, all are clamped to what the step can reach.
  const std::int64_t lowest = stride > 0 ? 0 : -1;
  const std::int64_t highest = stride > 0 ? n_items : n_items - 1;
  const auto clamped = [&](const Value* given, std::int64_t absent) {
    const std::optional<std::int64_t> index = bound(given);
    if (!index) return absent;
    return std::clamp(*index < 0 ? *index + n_items : *index, lowest, highest);
  };
  const std::int64_t first = clamped(begin, stride > 0 ? lowest : highest);
  const std::int64_t last = clamped(end, stride > 0 ? highest : lowest);

  if (value.as_string() != nullptr && stride == 1) {
    return Value::string(value.as_string()->slice(offsets[first], offsets[std::max(first, last)]));
  }
  List items;
  MarkedText text;
  for (__int128 i = first; stride > 0 ? i < last : i > last; i += stride) {
    const auto at = static_cast<std::size_t>(i);
    if (value.as_list() != nullptr) {
      items.push_back((*value.as_list())[at]);
    } else {
      text.append(value.as_string()->slice(offsets[at], offsets[at + 1]));
    }
  }
  return value.as_list() != nullptr ? Value::list(std::move(items))
                                    : Value::string(std::move(text));
}

Value global_function(const std::string& name, int line) {
  if (name == "namespace" || name == "range" || name == "raise_exception") {
    return Value::callable({name, nullptr});
  }
  for (const std::string_view unsupported :
       {"strftime_now", "dict", "lipsum", "cycler", "joiner", "self", "caller"}) {
    if (name == unsupported) template_fail(line, "'{}' is not supported", name);
  }
  return Value::undefined(name);
}

Value call(const Value& function, const Arguments& arguments, RenderBudget& budget) {
  if (function.is_undefined()) fail_undefined(function, arguments.line);
  const Callable* callable = function.as_callable();
  if (callable == nullptr) {
    template_fail(arguments.line, "{} is called like a function", function.type_name());
  }
  if (callable->self == nullptr) {
    if (callable->name == "range") return range(arguments, budget);
    if (callable->name == "namespace") return make_namespace(arguments);
    raise_exception(arguments);
  }
  if (const Dict* dict = callable->self->as_dict()) {
    budget.spend_steps(dict->size(), arguments.line);
    return dict_method(*dict, callable->name, arguments);
  }
  const MarkedText& self = *callable->self->as_string();
  budget.spend_bytes(self.text.size(), arguments.line);
  Value result = string_method(self, callable->name, arguments, budget);
  if (result.as_string() != nullptr) {
    budget.spend_bytes(result.as_string()->text.size(), arguments.line);
  } else if (result.as_list() != nullptr) {
    budget.spend_steps(result.as_list()->size(), arguments.line);
  }
  return result;
}

}  // namespace tessera::text
