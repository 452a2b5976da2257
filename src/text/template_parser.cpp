#include "text/template_parser.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "text/template_error.h"
#include "text/template_lexer.h"

namespace tessera::text {

namespace {

using Kind = TemplateTokenKind;

// Levels of expressions in expressions, and of statements in statements. Real templates stay below
// 20; each level takes some kilobytes of stack.
constexpr int kMaxNesting = 60;
// Operators in a row make a tall tree without nesting: "a ~ b ~ c ~ ...".
constexpr int kMaxHeight = 500;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(lex_template(source)) {}

  Block run() {
    Block block = statements({});
    return block;
  }

 private:
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) {
        template_fail(parser_.line(), "nesting is deeper than {} levels", kMaxNesting);
      }
    }
    ~Level() { --parser_.nesting_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  const TemplateToken& now() const { return tokens_[at_]; }
  const TemplateToken& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return now().line; }
  void advance() { at_ = std::min(at_ + 1, tokens_.size() - 1); }

  bool is_operator(std::string_view text) const {
    return now().kind == Kind::kOperator && now().text == text;
  }
  bool is_name(std::string_view text) const {
    return now().kind == Kind::kName && now().text == text;
  }
  bool skip_operator(std::string_view text) {
    const bool found = is_operator(text);
    if (found) advance();
    return found;
  }
  bool skip_name(std::string_view text) {
    const bool found = is_name(text);
    if (found) advance();
    return found;
  }

  [[noreturn]] void unexpected(std::string_view wanted) const {
    const bool is_word = now().kind == Kind::kName || now().kind == Kind::kOperator ||
                         now().kind == Kind::kInteger || now().kind == Kind::kFloat;
    const std::string found = is_word                       ? "'" + now().text + "'"
                              : now().kind == Kind::kString ? "a string"
                              : now().kind == Kind::kEnd    ? "the end of the template"
                                                            : "the end of the tag";
    template_fail(line(), "{} expected, not {}", wanted, found);
  }
  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) unexpected("'" + std::string(text) + "'");
  }
  void expect_kind(Kind kind, std::string_view what) {
    if (now().kind != kind) unexpected(what);
    advance();
  }
  std::string expect_name(std::string_view what) {
    if (now().kind != Kind::kName) unexpected(what);
    std::string name = now().text;
    advance();
    return name;
  }

  // --- statements

  // Up to a tag that starts with one of the ends (whose %} is not yet read), or the template's end.
  Block statements(std::initializer_list<std::string_view> ends) {
    const Level level(*this);
    Block block;
    for (;;) {
      switch (now().kind) {
        case Kind::kText:
          block.push_back(make(StatementKind::kText));
          block.back().text = now().text;
          advance();
          break;
        case Kind::kVariableBegin:
          block.push_back(make(StatementKind::kPrint));
          advance();
          block.back().expressions.push_back(tuple());
          expect_kind(Kind::kVariableEnd, "'}}'");
          break;
        case Kind::kBlockBegin: {
          advance();
          const bool is_end = std::find(ends.begin(), ends.end(), now().text) != ends.end();
          if (now().kind == Kind::kName && is_end) return block;
          block.push_back(statement());
          break;
        }
        default:
          if (ends.size() != 0) unexpected("'" + std::string(*(ends.end() - 1)) + "'");
          return block;
      }
    }
  }

  Statement make(StatementKind kind) const {
    Statement statement;
    statement.kind = kind;
    statement.line = line();
    return statement;
  }

  void end_tag() { expect_kind(Kind::kBlockEnd, "'%}'"); }

  Statement statement() {
    if (skip_name("if")) return if_statement();
    if (skip_name("for")) return for_statement();
    if (skip_name("set")) return set_statement();
    if (is_name("break") || is_name("continue")) {
      const bool is_break = is_name("break");
      if (n_loops_ == 0) template_fail(line(), "'{}' outside a loop", now().text);
      Statement jump = make(is_break ? StatementKind::kBreak : StatementKind::kContinue);
      advance();
      end_tag();
      return jump;
    }
    if (now().kind != Kind::kName) unexpected("a statement");
    template_fail(line(), "the statement '{}' is not supported", now().text);
  }

  Statement if_statement() {
    Statement result = make(StatementKind::kIf);
    for (;;) {
      result.expressions.push_back(disjunction());
      end_tag();
      result.blocks.push_back(statements({"elif", "else", "endif"}));
      if (!skip_name("elif")) break;
    }
    if (skip_name("else")) {
      end_tag();
      result.blocks.push_back(statements({"endif"}));
    }
    advance();
    end_tag();
    return result;
  }

  Statement for_statement() {
    Statement result = make(StatementKind::kFor);
    do {
      result.targets.push_back(expect_name("a loop variable"));
    } while (skip_operator(","));
    if (!skip_name("in")) unexpected("'in'");
    result.expressions.push_back(disjunction());
    result.expressions.push_back(skip_name("if") ? conditional() : nullptr);
    if (is_name("recursive")) template_fail(line(), "a recursive loop is not supported");
    end_tag();
    ++n_loops_;
    result.blocks.push_back(statements({"else", "endfor"}));
    --n_loops_;
    if (skip_name("else")) {
      end_tag();
      result.blocks.push_back(statements({"endfor"}));
    }
    advance();
    end_tag();
    return result;
  }

  Statement set_statement() {
    Statement result = make(StatementKind::kSet);
    result.targets.push_back(expect_name("a variable"));
    if (skip_operator(".")) {
      result.attribute = expect_name("an attribute");
    } else {
      while (skip_operator(",")) result.targets.push_back(expect_name("a variable"));
    }
    if (skip_operator("=")) {
      result.expressions.push_back(tuple());
      end_tag();
      return result;
    }
    if (result.targets.size() > 1 || !result.attribute.empty()) unexpected("'='");
    if (is_operator("|")) template_fail(line(), "a filter on a set block is not supported");
    result.kind = StatementKind::kSetBlock;
    end_tag();
    result.blocks.push_back(statements({"endset"}));
    advance();
    end_tag();
    return result;
  }

  // --- expressions, from the loosest operator to the tightest

  ExpressionPtr node(ExpressionKind kind, int at_line) const {
    auto result = std::make_unique<Expression>();
    result->kind = kind;
    result->line = at_line;
    return result;
  }

  static void adopt(Expression& parent, ExpressionPtr child) {
    if (child != nullptr) {
      parent.height = std::max(parent.height, child->height + 1);
      if (parent.height > kMaxHeight) {
        template_fail(parent.line, "an expression has more than {} levels", kMaxHeight);
      }
    }
    parent.children.push_back(std::move(child));
  }

  ExpressionPtr binary(ExpressionKind kind, std::string name, ExpressionPtr left,
                       ExpressionPtr right, int at_line) const {
    ExpressionPtr result = node(kind, at_line);
    result->name = std::move(name);
    adopt(*result, std::move(left));
    adopt(*result, std::move(right));
    return result;
  }

  // a, b: a list; one expression stands for itself.
  ExpressionPtr tuple() {
    const int at_line = line();
    ExpressionPtr first = conditional();
    if (!is_operator(",")) return first;
    ExpressionPtr result = node(ExpressionKind::kList, at_line);
    adopt(*result, std::move(first));
    while (skip_operator(",")) {
      if (now().kind == Kind::kVariableEnd || now().kind == Kind::kBlockEnd || is_operator(")"))
        break;
      adopt(*result, conditional());
    }
    return result;
  }

  ExpressionPtr conditional() {
    const Level level(*this);
    ExpressionPtr value = disjunction();
    while (is_name("if")) {
      ExpressionPtr result = node(ExpressionKind::kConditional, line());
      advance();
      adopt(*result, std::move(value));
      adopt(*result, disjunction());
      adopt(*result, skip_name("else") ? conditional() : nullptr);
      value = std::move(result);
    }
    return value;
  }

  ExpressionPtr disjunction() {
    ExpressionPtr left = conjunction();
    for (int at_line = line(); skip_name("or"); at_line = line()) {
      left = binary(ExpressionKind::kOr, "", std::move(left), conjunction(), at_line);
    }
    return left;
  }

  ExpressionPtr conjunction() {
    ExpressionPtr left = negation();
    for (int at_line = line(); skip_name("and"); at_line = line()) {
      left = binary(ExpressionKind::kAnd, "", std::move(left), negation(), at_line);
    }
    return left;
  }

  ExpressionPtr negation() {
    const Level level(*this);
    if (!is_name("not")) return comparison();
    ExpressionPtr result = node(ExpressionKind::kNot, line());
    advance();
    adopt(*result, negation());
    return result;
  }

  ExpressionPtr comparison() {
    const int at_line = line();
    ExpressionPtr left = sum();
    ExpressionPtr result;
    for (;;) {
      std::string name;
      for (const std::string_view text : {"==", "!=", "<=", ">=", "<", ">"}) {
        if (is_operator(text)) name = text;
      }
      if (is_name("in")) name = "in";
      if (is_name("not") && ahead().kind == Kind::kName && ahead().text == "in") {
        name = "not in";
        advance();
      }
      if (name.empty()) break;
      advance();
      if (result == nullptr) {
        result = node(ExpressionKind::kCompare, at_line);
        adopt(*result, std::move(left));
      }
      result->operators.push_back(std::move(name));
      adopt(*result, sum());
    }
    return result == nullptr ? std::move(left) : std::move(result);
  }

  ExpressionPtr sum() {
    ExpressionPtr left = concatenation();
    while (is_operator("+") || is_operator("-")) {
      const TemplateToken operation = now();
      advance();
      left = binary(ExpressionKind::kArithmetic, operation.text, std::move(left), concatenation(),
                    operation.line);
    }
    return left;
  }

  ExpressionPtr concatenation() {
    ExpressionPtr left = product();
    for (int at_line = line(); skip_operator("~"); at_line = line()) {
      left = binary(ExpressionKind::kArithmetic, "~", std::move(left), product(), at_line);
    }
    return left;
  }

  ExpressionPtr product() {
    ExpressionPtr left = unary(true);
    while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
      const TemplateToken operation = now();
      advance();
      left = binary(ExpressionKind::kArithmetic, operation.text, std::move(left), unary(true),
                    operation.line);
    }
    if (is_operator("**")) template_fail(line(), "the operator '**' is not supported");
    return left;
  }

  ExpressionPtr unary(bool with_filters) {
    const Level level(*this);
    ExpressionPtr value;
    if (is_operator("-") || is_operator("+")) {
      value = node(is_operator("-") ? ExpressionKind::kNegate : ExpressionKind::kPlus, line());
      advance();
      adopt(*value, unary(false));
    } else {
      value = primary();
    }
    value = postfix(std::move(value));
    return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
  }

  ExpressionPtr literal(Value value) {
    ExpressionPtr result = node(ExpressionKind::kLiteral, line());
    result->literal = std::move(value);
    return result;
  }

  ExpressionPtr primary() {
    const TemplateToken& token = now();
    ExpressionPtr result;
    switch (token.kind) {
      case Kind::kName:
        if (token.text == "true" || token.text == "True") {
          result = literal(Value::boolean(true));
        } else if (token.text == "false" || token.text == "False") {
          result = literal(Value::boolean(false));
        } else if (token.text == "none" || token.text == "None") {
          result = literal(Value::none());
        } else {
          result = node(ExpressionKind::kName, token.line);
          result->name = token.text;
        }
        advance();
        return result;
      case Kind::kString: {
        std::string text;
        for (; now().kind == Kind::kString; advance()) text += now().text;
        return literal(Value::string(std::move(text)));
      }
      case Kind::kInteger:
        result = literal(Value::integer(parsed_integer()));
        advance();
        return result;
      case Kind::kFloat:
        result = literal(Value::real(std::stod(token.text)));
        advance();
        return result;
      default:
        break;
    }
    if (skip_operator("(")) return parenthesised();
    if (skip_operator("[")) return list_display();
    if (skip_operator("{")) return dict_display();
    unexpected("an expression");
  }

  std::int64_t parsed_integer() const {
    const std::string& digits = now().text;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc()) template_fail(line(), "the number {} is too large", digits);
    return value;
  }

  ExpressionPtr parenthesised() {
    if (is_operator(")")) {
      ExpressionPtr empty = node(ExpressionKind::kList, line());
      advance();
      return empty;
    }
    ExpressionPtr inner = tuple();
    expect_operator(")");
    return inner;
  }

  ExpressionPtr list_display() {
    ExpressionPtr result = node(ExpressionKind::kList, line());
    while (!skip_operator("]")) {
      adopt(*result, conditional());
      if (!is_operator("]")) expect_operator(",");
    }
    return result;
  }

  ExpressionPtr dict_display() {
    ExpressionPtr result = node(ExpressionKind::kDict, line());
    while (!skip_operator("}")) {
      adopt(*result, conditional());
      expect_operator(":");
      adopt(*result, conditional());
      if (!is_operator("}")) expect_operator(",");
    }
    return result;
  }

  ExpressionPtr postfix(ExpressionPtr value) {
    for (;;) {
      const int at_line = line();
      if (skip_operator(".")) {
        if (now().kind == Kind::kInteger) {
          ExpressionPtr index = literal(Value::integer(parsed_integer()));
          advance();
          value =
              binary(ExpressionKind::kSubscript, "", std::move(value), std::move(index), at_line);
          continue;
        }
        ExpressionPtr result = node(ExpressionKind::kAttribute, at_line);
        result->name = expect_name("an attribute");
        adopt(*result, std::move(value));
        value = std::move(result);
      } else if (skip_operator("[")) {
        value = subscript(std::move(value), at_line);
      } else if (skip_operator("(")) {
        ExpressionPtr result = node(ExpressionKind::kCall, at_line);
        adopt(*result, std::move(value));
        arguments(*result);
        value = std::move(result);
      } else {
        return value;
      }
    }
  }

  ExpressionPtr subscript(ExpressionPtr value, int at_line) {
    ExpressionPtr begin = is_operator(":") ? nullptr : conditional();
    if (skip_operator("]")) {
      return binary(ExpressionKind::kSubscript, "", std::move(value), std::move(begin), at_line);
    }
    ExpressionPtr result = node(ExpressionKind::kSlice, at_line);
    adopt(*result, std::move(value));
    adopt(*result, std::move(begin));
    expect_operator(":");
    adopt(*result, is_operator(":") || is_operator("]") ? nullptr : conditional());
    const bool has_step = skip_operator(":") && !is_operator("]");
    adopt(*result, has_step ? conditional() : nullptr);
    expect_operator("]");
    return result;
  }

  // Behind the opening parenthesis.
  void arguments(Expression& call) {
    while (!skip_operator(")")) {
      if (is_operator("*") || is_operator("**")) {
        template_fail(line(), "'{}' in a call is not supported", now().text);
      }
      const bool is_keyword =
          now().kind == Kind::kName && ahead().kind == Kind::kOperator && ahead().text == "=";
      if (is_keyword) {
        std::string name = now().text;
        advance();
        advance();
        call.keywords.emplace_back(std::move(name), conditional());
        call.height = std::max(call.height, call.keywords.back().second->height + 1);
      } else {
        if (!call.keywords.empty()) template_fail(line(), "a value after a named argument");
        adopt(call, conditional());
      }
      if (!is_operator(")")) expect_operator(",");
    }
  }

  ExpressionPtr filters_and_tests(ExpressionPtr value) {
    for (;;) {
      const int at_line = line();
      if (skip_operator("|")) {
        ExpressionPtr result = node(ExpressionKind::kFilter, at_line);
        result->name = dotted_name("a filter");
        adopt(*result, std::move(value));
        if (skip_operator("(")) arguments(*result);
        value = std::move(result);
      } else if (skip_name("is")) {
        value = test(std::move(value), at_line);
      } else if (skip_operator("(")) {
        ExpressionPtr result = node(ExpressionKind::kCall, at_line);
        adopt(*result, std::move(value));
        arguments(*result);
        value = std::move(result);
      } else {
        return value;
      }
    }
  }

  std::string dotted_name(std::string_view what) {
    std::string name = expect_name(what);
    while (skip_operator(".")) name += "." + expect_name(what);
    return name;
  }

  ExpressionPtr test(ExpressionPtr value, int at_line) {
    const bool is_negated = skip_name("not");
    ExpressionPtr result = node(ExpressionKind::kTest, at_line);
    result->name = dotted_name("a test");
    adopt(*result, std::move(value));
    if (skip_operator("(")) {
      arguments(*result);
    } else if (starts_argument()) {
      if (is_name("is")) template_fail(line(), "tests cannot be chained with 'is'");
      adopt(*result, postfix(primary()));
    }
    if (!is_negated) return result;
    ExpressionPtr negated = node(ExpressionKind::kNot, at_line);
    adopt(*negated, std::move(result));
    return negated;
  }

  bool starts_argument() const {
    if (now().kind == Kind::kName) return !is_name("else") && !is_name("or") && !is_name("and");
    return now().kind == Kind::kString || now().kind == Kind::kInteger ||
           now().kind == Kind::kFloat || is_operator("[") || is_operator("{");
  }

  std::vector<TemplateToken> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int n_loops_ = 0;
};

}  // namespace

Block parse_template(std::string_view source) {
  return Parser(source).run();
}

}  // namespace tessera::text
