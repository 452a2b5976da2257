#include "tile/ir/lexer.h"

#include <cctype>
#include <charconv>

#include "tile/ir/fail.h"

namespace tessera::tile::ir {

namespace {

bool starts_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '@';
}
bool continues_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '@';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

void Lexer::fail(std::string_view expected) const {
  const std::string found = token_.kind == Token::Kind::kEnd
                                ? "the end"
                                : fmt::format("\"{}\"", token_.text.substr(0, 40));
  fail_at(code::kBadIrText, {}, "line {} of the kernel's text: expected {}, found {}", token_.line,
          expected, found);
}

Token Lexer::take() {
  const Token token = token_;
  advance();
  return token;
}

bool Lexer::accept(std::string_view wanted) {
  if (!at(wanted)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view wanted) {
  if (!accept(wanted)) fail(fmt::format("\"{}\"", wanted));
}

std::string Lexer::expect_name(std::string_view what) {
  if (token_.kind != Token::Kind::kName) fail(what);
  return std::string(take().text);
}

std::int64_t Lexer::expect_integer(std::string_view what) {
  if (token_.kind != Token::Kind::kNumber || !token_.is_integer) fail(what);
  return take().integer;
}

void Lexer::lex_number() {
  const std::size_t begin = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  bool integer = true;
  // "1..8" is a range: a dot belongs to the number only before another digit.
  if (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
    integer = false;
    ++at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  }
  if (at_ < text_.size() && text_[at_] == 'e') {
    integer = false;
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  }
  token_.kind = Token::Kind::kNumber;
  token_.text = text_.substr(begin, at_ - begin);
  const char* first = token_.text.data();
  const char* last = first + token_.text.size();
  const auto as_double = std::from_chars(first, last, token_.number);
  if (as_double.ec != std::errc() || as_double.ptr != last) fail("a number");
  token_.is_integer = integer && std::from_chars(first, last, token_.integer).ec == std::errc();
}

void Lexer::advance() {
  while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) {
    if (text_[at_++] == '\n') ++line_;
  }
  token_ = Token{};
  token_.line = line_;
  if (at_ == text_.size()) return;
  const std::size_t begin = at_;
  const char c = text_[at_];
  if (is_digit(c)) return lex_number();
  if (starts_name(c)) {
    while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
    token_.kind = Token::Kind::kName;
    token_.text = text_.substr(begin, at_ - begin);
    return;
  }
  if (c == '%') {
    ++at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    token_.kind = Token::Kind::kValue;
    token_.text = text_.substr(begin + 1, at_ - begin - 1);
    const char* last = token_.text.data() + token_.text.size();
    const auto parsed = std::from_chars(token_.text.data(), last, token_.integer);
    token_.is_integer = parsed.ec == std::errc();
    if (!token_.is_integer || token_.integer > 1'000'000) fail("a value's number");
    return;
  }
  if (c == '"') {
    const std::size_t close = text_.find('"', at_ + 1);
    token_.kind = Token::Kind::kString;
    if (close == std::string_view::npos) {
      token_.text = text_.substr(begin, 20);
      fail("a closing quote");
    }
    token_.text = text_.substr(begin + 1, close - begin - 1);
    at_ = close + 1;
    return;
  }
  token_.kind = Token::Kind::kSymbol;
  ++at_;
  if (c == '.' && at_ < text_.size() && text_[at_] == '.') ++at_;
  token_.text = text_.substr(begin, at_ - begin);
}

}  // namespace tessera::tile::ir
