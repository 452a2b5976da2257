#include "text/template_interpreter.h"

#include <algorithm>
#include <cmath>

#include "text/template_error.h"

namespace tessera::text {

namespace {

class Interpreter {
 public:
  Interpreter(Variables variables, const RenderLimits& limits) : budget_(limits) {
    scopes_.push_back(std::move(variables));
  }

  MarkedText run(const Block& block) {
    execute(block);
    return std::move(out_);
  }

 private:
  enum class Flow { kOn, kBreak, kContinue };

  // --- statements

  Flow execute(const Block& block) {
    for (const Statement& statement : block) {
      const Flow flow = execute(statement);
      if (flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  Flow execute(const Statement& statement) {
    budget_.spend_step(statement.line);
    switch (statement.kind) {
      case StatementKind::kText:
        budget_.spend_bytes(statement.text.size(), statement.line);
        out_.append(statement.text);
        return Flow::kOn;
      case StatementKind::kPrint:
        print(statement);
        return Flow::kOn;
      case StatementKind::kIf:
        return execute_if(statement);
      case StatementKind::kFor:
        return execute_for(statement);
      case StatementKind::kSet:
        execute_set(statement);
        return Flow::kOn;
      case StatementKind::kSetBlock:
        return execute_set_block(statement);
      case StatementKind::kBreak:
        return Flow::kBreak;
      case StatementKind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kOn;
  }

  void print(const Statement& statement) {
    const MarkedText text = to_text(evaluate(*statement.expressions[0]), statement.line);
    budget_.spend_bytes(text.text.size(), statement.line);
    out_.append(text);
  }

  Flow execute_if(const Statement& statement) {
    for (std::size_t i = 0; i < statement.expressions.size(); ++i) {
      if (evaluate(*statement.expressions[i]).is_true()) return execute(statement.blocks[i]);
    }
    const bool has_else = statement.blocks.size() > statement.expressions.size();
    return has_else ? execute(statement.blocks.back()) : Flow::kOn;
  }

  // Variables set in the body are gone after each round, as in Jinja; that is what namespaces are
  // for.
  Flow execute_for(const Statement& statement) {
    Value items = iterated(evaluate(*statement.expressions[0]), "for", statement.line, budget_);
    if (const ExpressionPtr& condition = statement.expressions[1]) {
      List kept;
      for (const Value& item : *items.as_list()) {
        scopes_.emplace_back();
        assign(statement, item);
        if (evaluate(*condition).is_true()) kept.push_back(item);
        scopes_.pop_back();
      }
      items = Value::list(std::move(kept));
    }
    const std::shared_ptr<const List> list = items.shared_list();
    for (std::size_t i = 0; i < list->size(); ++i) {
      budget_.spend_step(statement.line);
      scopes_.emplace_back();
      set("loop", Value::loop(std::make_shared<const Loop>(Loop{list, i})));
      assign(statement, (*list)[i]);
      const Flow flow = execute(statement.blocks[0]);
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    if (list->empty() && statement.blocks.size() > 1) return execute(statement.blocks[1]);
    return Flow::kOn;
  }

  void execute_set(const Statement& statement) {
    Value value = evaluate(*statement.expressions[0]);
    if (statement.attribute.empty()) return assign(statement, value);
    const Value target = lookup(statement.targets[0], statement.line);
    Namespace* space = target.as_space();
    if (space == nullptr) {
      template_fail(statement.line, "'{}' is {}; only attributes of a namespace can be set",
                    statement.targets[0], target.type_name());
    }
    if (!value.is_data()) {
      template_fail(statement.line, "{} cannot be kept in a namespace", value.type_name());
    }
    put(space->attributes, statement.attribute, std::move(value));
  }

  Flow execute_set_block(const Statement& statement) {
    MarkedText outer = std::exchange(out_, {});
    const Flow flow = execute(statement.blocks[0]);
    Value value = Value::string(std::exchange(out_, std::move(outer)));
    if (flow == Flow::kOn) set(statement.targets[0], std::move(value));
    return flow;
  }

  // To the one target, or the elements to several.
  void assign(const Statement& statement, const Value& value) {
    if (statement.targets.size() == 1) return set(statement.targets[0], value);
    const Value items = iterated(value, "assigning to several variables", statement.line, budget_);
    if (items.as_list()->size() != statement.targets.size()) {
      template_fail(statement.line, "{} values for {} variables", items.as_list()->size(),
                    statement.targets.size());
    }
    for (std::size_t i = 0; i < statement.targets.size(); ++i) {
      set(statement.targets[i], (*items.as_list())[i]);
    }
  }

  static void put(Variables& variables, const std::string& name, Value value) {
    const auto found = std::find_if(variables.begin(), variables.end(),
                                    [&name](const auto& entry) { return entry.first == name; });
    if (found == variables.end()) {
      variables.emplace_back(name, std::move(value));
    } else {
      found->second = std::move(value);
    }
  }
  void set(const std::string& name, Value value) { put(scopes_.back(), name, std::move(value)); }

  Value lookup(const std::string& name, int line) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      for (const auto& [key, value] : *scope) {
        if (key == name) return value;
      }
    }
    return global_function(name, line);
  }

  // --- expressions

  Value evaluate(const Expression& expression) {
    budget_.spend_step(expression.line);
    const auto child = [&](std::size_t index) { return evaluate(*expression.children[index]); };
    switch (expression.kind) {
      case ExpressionKind::kLiteral:
        return expression.literal;
      case ExpressionKind::kName:
        return lookup(expression.name, expression.line);
      case ExpressionKind::kList: {
        List items;
        for (const ExpressionPtr& item : expression.children) items.push_back(evaluate(*item));
        return Value::list(std::move(items));
      }
      case ExpressionKind::kDict:
        return dict(expression);
      case ExpressionKind::kAttribute:
        return attribute(child(0), expression.name, expression.line);
      case ExpressionKind::kSubscript: {
        const Value container = child(0);
        return item(container, child(1), expression.line, budget_);
      }
      case ExpressionKind::kSlice:
        return sliced(expression);
      case ExpressionKind::kCall: {
        const Value function = child(0);
        const Callable* callable = function.as_callable();
        const std::string what = callable == nullptr ? "the call" : callable->name;
        return call(function, arguments(expression, what), budget_);
      }
      case ExpressionKind::kFilter: {
        const Value value = child(0);
        const Arguments given = arguments(expression, "the filter '" + expression.name + "'");
        return apply_filter(expression.name, value, given, budget_);
      }
      case ExpressionKind::kTest: {
        const Value value = child(0);
        const Arguments given = arguments(expression, "the test '" + expression.name + "'");
        return Value::boolean(apply_test(expression.name, value, given));
      }
      case ExpressionKind::kNegate:
      case ExpressionKind::kPlus:
        return signed_value(expression, child(0));
      case ExpressionKind::kNot:
        return Value::boolean(!child(0).is_true());
      case ExpressionKind::kAnd: {
        Value left = child(0);
        return left.is_true() ? child(1) : left;
      }
      case ExpressionKind::kOr: {
        Value left = child(0);
        return left.is_true() ? left : child(1);
      }
      case ExpressionKind::kArithmetic: {
        const Value left = child(0);
        return arithmetic(expression, left, child(1));
      }
      case ExpressionKind::kCompare:
        return compare(expression);
      case ExpressionKind::kConditional:
        if (child(1).is_true()) return child(0);
        if (expression.children[2] == nullptr) return Value::undefined("the missing else");
        return child(2);
    }
    return Value();
  }

  Value dict(const Expression& expression) {
    Dict items;
    for (std::size_t i = 0; i < expression.children.size(); i += 2) {
      const Value key = evaluate(*expression.children[i]);
      Value value = evaluate(*expression.children[i + 1]);
      if (key.as_string() == nullptr) {
        template_fail(expression.line, "{} as a key is not supported", key.type_name());
      }
      const auto found = std::find_if(items.begin(), items.end(), [&key](const auto& item) {
        return item.first.text == key.as_string()->text;
      });
      if (found == items.end()) {
        items.emplace_back(*key.as_string(), std::move(value));
      } else {
        found->second = std::move(value);
      }
    }
    return Value::dict(std::move(items));
  }

  Value sliced(const Expression& expression) {
    const Value value = evaluate(*expression.children[0]);
    Value bounds[3];
    const Value* given[3] = {};
    for (std::size_t i = 0; i < 3; ++i) {
      if (expression.children[i + 1] == nullptr) continue;
      bounds[i] = evaluate(*expression.children[i + 1]);
      given[i] = &bounds[i];
    }
    return slice(value, given[0], given[1], given[2], expression.line, budget_);
  }

  Arguments arguments(const Expression& expression, std::string what) {
    Arguments given{std::move(what), expression.line, {}, {}};
    for (std::size_t i = 1; i < expression.children.size(); ++i) {
      given.positional.push_back(evaluate(*expression.children[i]));
    }
    for (const auto& [name, value] : expression.keywords) {
      given.keywords.emplace_back(name, evaluate(*value));
    }
    return given;
  }

  // --- operators

  [[noreturn]] static void fail_operands(const Expression& expression, std::string_view name,
                                         const Value& left, const Value& right) {
    for (const Value* operand : {&left, &right}) {
      if (operand->is_undefined()) {
        template_fail(expression.line, "'{}' is undefined", operand->as_undefined()->name);
      }
    }
    template_fail(expression.line, "{} {} {} is not supported", left.type_name(), name,
                  right.type_name());
  }

  static std::optional<std::int64_t> as_whole(const Value& value) {
    if (value.as_boolean() != nullptr) return *value.as_boolean() ? 1 : 0;
    if (value.as_integer() != nullptr) return *value.as_integer();
    return std::nullopt;
  }

  static std::optional<double> as_number(const Value& value) {
    if (value.as_real() != nullptr) return *value.as_real();
    const std::optional<std::int64_t> whole = as_whole(value);
    return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
  }

  Value signed_value(const Expression& expression, const Value& value) const {
    const bool negates = expression.kind == ExpressionKind::kNegate;
    if (const std::optional<std::int64_t> whole = as_whole(value)) {
      if (negates && *whole == INT64_MIN) overflow(expression);
      return Value::integer(negates ? -*whole : *whole);
    }
    if (value.as_real() == nullptr) {
      if (value.is_undefined()) fail_operands(expression, "", value, value);
      template_fail(expression.line, "{} has no sign", value.type_name());
    }
    return Value::real(negates ? -*value.as_real() : *value.as_real());
  }

  [[noreturn]] static void overflow(const Expression& expression) {
    template_fail(expression.line, "a number is too large");
  }

  Value concatenated(const Expression& expression, const MarkedText& left,
                     const MarkedText& right) {
    budget_.spend_bytes(left.text.size() + right.text.size(), expression.line);
    MarkedText text = left;
    text.append(right);
    return Value::string(std::move(text));
  }

  Value repeated(const Expression& expression, const MarkedText& text, std::int64_t count) {
    MarkedText result;
    for (std::int64_t i = 0; i < count && !text.text.empty(); ++i) {
      budget_.spend_step(expression.line);
      budget_.spend_bytes(text.text.size(), expression.line);
      result.append(text);
    }
    return Value::string(std::move(result));
  }

  Value arithmetic(const Expression& expression, const Value& left, const Value& right) {
    const std::string& name = expression.name;
    if (name == "~") {
      return concatenated(expression, to_text(left, expression.line),
                          to_text(right, expression.line));
    }
    if (left.as_string() != nullptr && right.as_string() != nullptr && name == "+") {
      return concatenated(expression, *left.as_string(), *right.as_string());
    }
    if (left.as_list() != nullptr && right.as_list() != nullptr && name == "+") {
      budget_.spend_steps(left.as_list()->size() + right.as_list()->size(), expression.line);
      List items = *left.as_list();
      items.insert(items.end(), right.as_list()->begin(), right.as_list()->end());
      return Value::list(std::move(items));
    }
    const std::optional<std::int64_t> left_whole = as_whole(left);
    const std::optional<std::int64_t> right_whole = as_whole(right);
    if (name == "*" && left.as_string() != nullptr && right_whole) {
      return repeated(expression, *left.as_string(), *right_whole);
    }
    if (name == "*" && right.as_string() != nullptr && left_whole) {
      return repeated(expression, *right.as_string(), *left_whole);
    }
    if (left_whole && right_whole && name != "/") {
      return whole_arithmetic(expression, *left_whole, *right_whole);
    }
    const std::optional<double> left_number = as_number(left);
    const std::optional<double> right_number = as_number(right);
    if (!left_number || !right_number) fail_operands(expression, name, left, right);
    return real_arithmetic(expression, *left_number, *right_number);
  }

  static Value whole_arithmetic(const Expression& expression, std::int64_t left,
                                std::int64_t right) {
    std::int64_t result = 0;
    bool overflows = false;
    if (expression.name == "+") {
      overflows = __builtin_add_overflow(left, right, &result);
    } else if (expression.name == "-") {
      overflows = __builtin_sub_overflow(left, right, &result);
    } else if (expression.name == "*") {
      overflows = __builtin_mul_overflow(left, right, &result);
    } else {
      if (right == 0) template_fail(expression.line, "division by zero");
      if (left == INT64_MIN && right == -1) overflow(expression);
      // Python rounds down, and the remainder has the divisor's sign.
      const bool rounds_down = left % right != 0 && (left < 0) != (right < 0);
      result = expression.name == "//" ? left / right - (rounds_down ? 1 : 0)
                                       : left % right + (rounds_down ? right : 0);
    }
    if (overflows) overflow(expression);
    return Value::integer(result);
  }

  static Value real_arithmetic(const Expression& expression, double left, double right) {
    if (expression.name == "+") return Value::real(left + right);
    if (expression.name == "-") return Value::real(left - right);
    if (expression.name == "*") return Value::real(left * right);
    if (right == 0) template_fail(expression.line, "division by zero");
    if (expression.name == "/") return Value::real(left / right);
    template_fail(expression.line, "'{}' of floats is not supported", expression.name);
  }

  Value compare(const Expression& expression) {
    Value left = evaluate(*expression.children[0]);
    for (std::size_t i = 0; i < expression.operators.size(); ++i) {
      Value right = evaluate(*expression.children[i + 1]);
      if (!holds(expression, expression.operators[i], left, right)) return Value::boolean(false);
      left = std::move(right);
    }
    return Value::boolean(true);
  }

  bool holds(const Expression& expression, const std::string& name, const Value& left,
             const Value& right) {
    // Comparing and searching go through elements and bytes.
    for (const Value* operand : {&left, &right}) {
      if (operand->as_list() != nullptr)
        budget_.spend_steps(operand->as_list()->size(), expression.line);
      if (operand->as_dict() != nullptr)
        budget_.spend_steps(operand->as_dict()->size(), expression.line);
      if (operand->as_string() != nullptr) {
        budget_.spend_bytes(operand->as_string()->text.size() / 16, expression.line);
      }
    }
    if (name == "==") return equal(left, right);
    if (name == "!=") return !equal(left, right);
    if (name == "in") return contains(left, right, expression.line);
    if (name == "not in") return !contains(left, right, expression.line);
    if (left.as_string() != nullptr && right.as_string() != nullptr) {
      return ordered(name, left.as_string()->text, right.as_string()->text);
    }
    const std::optional<std::int64_t> left_whole = as_whole(left);
    const std::optional<std::int64_t> right_whole = as_whole(right);
    if (left_whole && right_whole) return ordered(name, *left_whole, *right_whole);
    const std::optional<double> left_number = as_number(left);
    const std::optional<double> right_number = as_number(right);
    if (!left_number || !right_number) fail_operands(expression, name, left, right);
    return ordered(name, *left_number, *right_number);
  }

  template <typename T>
  static bool ordered(const std::string& name, const T& left, const T& right) {
    if (name == "<") return left < right;
    if (name == "<=") return left <= right;
    if (name == ">") return left > right;
    return left >= right;
  }

  RenderBudget budget_;
  std::vector<Variables> scopes_;  // innermost last
  MarkedText out_;
};

}  // namespace

MarkedText run_template(const Block& block, Variables variables, const RenderLimits& limits) {
  return Interpreter(std::move(variables), limits).run(block);
}

}  // namespace tessera::text
