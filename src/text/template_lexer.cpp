#include "text/template_lexer.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "text/template_error.h"
#include "text/utf8.h"

namespace tessera::text {

namespace {

using Kind = TemplateTokenKind;

// Longest first, so that the first that fits is the right one.
constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
    ">",  "=",  ".",  ",",  ":",  "|",  "(", ")", "[", "]", "{", "}", ";"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_part(char c) {
  return is_name_start(c) || is_digit(c);
}

// Line ends as \n, and none at the end.
std::string normalized(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(replace_invalid_utf8(source))) {}

  std::vector<TemplateToken> run() {
    while (at_ < source_.size()) {
      const std::size_t open = find_tag();
      text_before(open);
      if (open == std::string::npos) break;
      advance_to(open + 2);
      const char kind = source_[open + 1];
      if (peek("-") || peek("+")) advance(1);
      if (kind == '#') {
        comment();
      } else {
        tag(kind == '%');
      }
    }
    put(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  bool peek(std::string_view text) const { return rest().starts_with(text); }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  void advance_to(std::size_t position) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                    source_.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
    at_ = position;
  }
  void advance(std::size_t n_bytes) { advance_to(at_ + n_bytes); }
  void put(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  std::size_t find_tag() const {
    std::size_t open = at_;
    while ((open = source_.find('{', open)) != std::string::npos) {
      if (open + 1 < source_.size() &&
          std::string_view("{%#").find(source_[open + 1]) != std::string_view::npos) {
        return open;
      }
      ++open;
    }
    return open;
  }

  // End of text[0, end) without the white space before it.
  static std::size_t end_without_spaces(std::string_view text) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < text.size();) {
      const Sequence character = sequence_at(text, i);
      i += character.n_bytes;
      if (!is_python_space(character.code_point)) kept = i;
    }
    return kept;
  }

  void text_before(std::size_t open) {
    std::string_view text = std::string_view(source_).substr(
        at_, open == std::string::npos ? std::string::npos : open - at_);
    if (open != std::string::npos) {
      const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
      if (sign == '-') {
        text = text.substr(0, end_without_spaces(text));
      } else if (sign != '+' && source_[open + 1] != '{') {
        const std::size_t line_begin = text.rfind('\n') + 1;  // 0 without one
        const bool from_line_begin = line_begin > 0 || at_line_begin_;
        if (from_line_begin && end_without_spaces(text.substr(line_begin)) == 0) {
          text = text.substr(0, line_begin);
        }
      }
    }
    if (!text.empty()) put(Kind::kText, std::string(text));
  }

  void skip_spaces() {
    while (at_ < source_.size()) {
      const Sequence character = sequence_at(source_, at_);
      if (!is_python_space(character.code_point)) return;
      advance(character.n_bytes);
    }
  }

  // Behind the closing bracket; what follows it depends on the sign before it.
  void after_tag(char sign, bool trims_newline) {
    const std::size_t begin = at_;
    if (sign == '-') {
      skip_spaces();
    } else if (sign != '+' && trims_newline && peek("\n")) {
      advance(1);
    }
    at_line_begin_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void comment() {
    const std::size_t close = source_.find("#}", at_);
    if (close == std::string::npos) template_fail(line_, "a comment has no end");
    const char sign = close > at_ ? source_[close - 1] : ' ';
    advance_to(close + 2);
    after_tag(sign, true);
  }

  void tag(bool is_block) {
    const std::string_view close = is_block ? "%}" : "}}";
    put(is_block ? Kind::kBlockBegin : Kind::kVariableBegin, "");
    std::string brackets;  // the closing ones that are awaited
    for (;;) {
      skip_spaces();
      if (at_ == source_.size()) template_fail(line_, "'{}' is missing", close);
      if (brackets.empty()) {
        char sign = ' ';
        if ((peek("-") || (is_block && peek("+"))) && rest().substr(1).starts_with(close)) {
          sign = source_[at_];
          advance(1);
        }
        if (peek(close)) {
          put(is_block ? Kind::kBlockEnd : Kind::kVariableEnd, "");
          advance(2);
          return after_tag(sign, is_block);
        }
      }
      expression_token(brackets);
    }
  }

  void expression_token(std::string& brackets) {
    const char c = source_[at_];
    if (is_name_start(c)) {
      std::size_t end = at_;
      while (end < source_.size() && is_name_part(source_[end])) ++end;
      put(Kind::kName, source_.substr(at_, end - at_));
      return advance_to(end);
    }
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return string(c);
    for (const std::string_view text : kOperators) {
      if (!peek(text)) continue;
      match_bracket(c, brackets);
      put(Kind::kOperator, std::string(text));
      return advance(text.size());
    }
    const Sequence character = sequence_at(source_, at_);
    template_fail(line_, "unexpected '{}'", source_.substr(at_, character.n_bytes));
  }

  void match_bracket(char c, std::string& brackets) const {
    if (c == '(') brackets += ')';
    if (c == '[') brackets += ']';
    if (c == '{') brackets += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c) template_fail(line_, "unexpected '{}'", c);
      brackets.pop_back();
    }
  }

  void number() {
    std::size_t end = at_;
    const auto skip_digits = [&] {
      while (end < source_.size() && is_digit(source_[end])) ++end;
    };
    skip_digits();
    bool is_float = false;
    // In "items.0.1" each number is an index.
    const bool is_index = at_ > 0 && source_[at_ - 1] == '.';
    if (!is_index && end + 1 < source_.size() && source_[end] == '.' &&
        is_digit(source_[end + 1])) {
      is_float = true;
      ++end;
      skip_digits();
    }
    if (end < source_.size() && is_name_part(source_[end])) {
      template_fail(line_, "the number '{}' is not supported", source_.substr(at_, end + 1 - at_));
    }
    put(is_float ? Kind::kFloat : Kind::kInteger, source_.substr(at_, end - at_));
    advance_to(end);
  }

  void string(char quote) {
    std::string value;
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\') {
        value += source_[i];
      } else if (++i < source_.size()) {
        i = escape(i, value);
      }
    }
    if (i >= source_.size()) template_fail(line_, "a string has no end");
    put(Kind::kString, std::move(value));
    advance_to(i + 1);
  }

  // Appends what the escape whose letter is at i stands for; returns its last byte.
  std::size_t escape(std::size_t i, std::string& value) const {
    constexpr std::string_view kLetters = "abfnrtv\\'\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = source_[i];
    if (const std::size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      value += kMeanings[letter];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string digits = source_.substr(i + 1, n_digits);
      const bool is_hex = digits.size() == n_digits &&
                          digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
      const unsigned long code_point = is_hex ? std::stoul(digits, nullptr, 16) : 0xD800;
      if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) {
        template_fail(line_, "the escape '\\{}{}' is not a character", c, digits);
      }
      append_utf8(value, static_cast<char32_t>(code_point));
      return i + n_digits;
    } else if (is_digit(c) || c == 'N') {
      template_fail(line_, "the escape '\\{}' is not supported", c);
    } else if (c != '\n') {  // a backslash at a line's end joins the lines; others stay
      value += '\\';
      value += c;
    }
    return i;
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool at_line_begin_ = true;
  std::vector<TemplateToken> tokens_;
};

}  // namespace

std::vector<TemplateToken> lex_template(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace tessera::text
