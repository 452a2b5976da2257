// What the functions, methods, filters and tests of chat templates share: arguments and the bound
// on work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template_value.h"

namespace tessera::text {

// How much one rendering may do. The defaults leave room for conversations of millions of words.
struct RenderLimits {
  std::int64_t n_steps = 20'000'000;             // statements and expressions evaluated
  std::int64_t n_bytes = std::int64_t{1} << 28;  // of all strings made on the way, and the output
};

// Counts down; throws Error(kBadTemplate) at zero.
class RenderBudget {
 public:
  explicit RenderBudget(const RenderLimits& limits) : left_(limits) {}

  void spend_step(int line) { spend_steps(1, line); }
  void spend_steps(std::size_t n_steps, int line);
  void spend_bytes(std::size_t n_bytes, int line);

 private:
  RenderLimits left_;
};

struct Arguments {
  std::string what;  // for errors: "the filter 'join'"
  int line = 0;
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // Throws Error(kBadTemplate) unless at least n_required arguments fill these parameters.
  void check(std::size_t n_required, std::initializer_list<std::string_view> parameters) const;

  // The argument for a parameter, by its position or name; null where left out.
  const Value* get(std::size_t index, std::string_view name) const;

  // The same, of one type; another type throws. None for an argument left out or none.
  std::optional<MarkedText> string(std::size_t index, std::string_view name) const;
  std::optional<std::int64_t> integer(std::size_t index, std::string_view name) const;
};

// What {{ value }} prints. Lists and mappings throw: their Python form is not what a template
// wants.
MarkedText to_text(const Value& value, int line);

// As json.dumps(value, ensure_ascii=False, indent=indent) of Python; marked as a user's where any
// string inside is. Throws Error(kBadTemplate) for what JSON cannot hold.
MarkedText to_json(const Value& value, std::optional<int> indent, int line, RenderBudget& budget);

// The elements that iteration gives: of a list, the keys of a mapping, the characters of a string,
// none of undefined. Other values throw, and name what wants to iterate.
Value iterated(const Value& value, std::string_view what, int line, RenderBudget& budget);

// left in right.
bool contains(const Value& left, const Value& right, int line);

// value | name(arguments).
Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments,
                   RenderBudget& budget);

// value is name(arguments).
bool apply_test(const std::string& name, const Value& value, const Arguments& arguments);

// value.name, and value[key].
Value attribute(const Value& value, const std::string& name, int line);
Value item(const Value& value, const Value& key, int line, RenderBudget& budget);

// value[begin:end:step]; null for what is left out.
Value slice(const Value& value, const Value* begin, const Value* end, const Value* step, int line,
            RenderBudget& budget);

// The global function of that name, or undefined.
Value global_function(const std::string& name, int line);
Value call(const Value& function, const Arguments& arguments, RenderBudget& budget);

}  // namespace tessera::text
