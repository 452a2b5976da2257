// Tokens of the IR's text form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::tile::ir {

struct Token {
  enum class Kind { kEnd, kName, kNumber, kValue, kString, kSymbol };
  Kind kind = Kind::kEnd;
  std::string_view text;     // kString: without the quotes; kValue: without the %
  double number = 0;         // kNumber
  std::int64_t integer = 0;  // kNumber and kValue where is_integer
  bool is_integer = false;
  int line = 1;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return token_; }
  Token take();
  bool at(std::string_view symbol_or_name) const {
    return (token_.kind == Token::Kind::kSymbol || token_.kind == Token::Kind::kName) &&
           token_.text == symbol_or_name;
  }
  bool accept(std::string_view symbol_or_name);
  void expect(std::string_view symbol_or_name);
  std::string expect_name(std::string_view what);
  std::int64_t expect_integer(std::string_view what);  // not negative
  [[noreturn]] void fail(std::string_view expected) const;

 private:
  void advance();
  void lex_number();

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  Token token_;
};

}  // namespace tessera::tile::ir
