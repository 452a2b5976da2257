#include "text/regex_syntax.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "base/fail.h"
#include "text/unicode_additions.h"

namespace tessera::text {

namespace {

// Oniguruma's \s. PCRE2's has U+180E as well.
constexpr std::string_view kSpaceItems =
    R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr std::array<std::string_view, 31> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P", "Pc",
    "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) element();
    return bounded();
  }

 private:
  bool at(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  void copy(std::size_t n_bytes) {
    out_ += pattern_.substr(at_, n_bytes);
    at_ += n_bytes;
  }

  [[noreturn]] void refuse(std::string_view construct) const {
    fail(ErrorCode::kUnsupported, "the regular expression '{}' uses {}, which is not supported",
         pattern_, construct);
  }

  void element() {
    const std::size_t begin = out_.size();
    const char c = pattern_[at_];
    bool is_one_character = false;
    if (c == '\\') {
      is_one_character = escape(false);
    } else if (c == '[') {
      character_class();
      is_one_character = true;
    } else if (c == '(') {
      open_group();
    } else if (c == '{') {
      interval();
    } else {
      if (c == ')') depth_ -= 1;
      if (c == '|' && depth_ == 0) has_alternatives_ = true;
      is_one_character = std::string_view(")|*+?^$").find(c) == std::string_view::npos;
      copy(1);
    }
    // A character of several bytes counts as one only in a class; that is enough for bounded().
    if (begin == 0 && is_one_character) first_end_ = out_.size();
  }

  // `X+R`, X one character, where R fails after a run of X: every later start inside that run fails
  // as well, since R is tried at the same places. Leaving the run at once keeps `\s+$` linear.
  std::string bounded() const {
    const std::string_view rest = std::string_view(out_).substr(first_end_);
    const bool is_greedy_run = first_end_ != 0 && rest.size() > 1 && rest[0] == '+' &&
                               std::string_view("?+*{").find(rest[1]) == std::string_view::npos;
    if (!is_greedy_run || has_alternatives_) return out_;
    return fmt::format("{}|{}++(*SKIP)(*FAIL)", out_, std::string_view(out_).substr(0, first_end_));
  }

  void open_group() {
    depth_ += 1;
    if (!at("(?")) {
      if (at("(*")) refuse("'(*'");
      return copy(1);
    }
    for (std::string_view opening : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:"}) {
      if (at(opening)) return copy(opening.size());
    }
    refuse(fmt::format("'{}'", pattern_.substr(at_, 3)));
  }

  // {n}, {n,} and {n,m}, which both engines read alike; not what Oniguruma alone reads as an
  // interval, nor what follows one and means something else to each.
  void interval() {
    std::size_t end = at_ + 1;
    while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
    const bool has_minimum = end > at_ + 1;
    bool is_exact = true;
    if (end < pattern_.size() && pattern_[end] == ',') {
      is_exact = false;
      ++end;
      while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
    }
    const bool closes = end < pattern_.size() && pattern_[end] == '}';
    if (!has_minimum || !closes) refuse("'{' outside an interval like {1,3}");
    copy(end + 1 - at_);
    if (at("+") || (is_exact && at("?"))) refuse("a quantifier after an interval");
  }

  void character_class() {
    copy(1);
    if (at("^")) copy(1);
    if (at("]")) refuse("']' at the start of a character class");
    while (at_ < pattern_.size() && !at("]")) {
      if (at("[")) refuse("a character class inside another");
      if (at("&&")) refuse("'&&' in a character class");
      if (at("\\")) {
        escape(true);
      } else {
        copy(1);
      }
    }
    if (at("]")) copy(1);
  }

  // Writes class items, inside a class or as a class of their own.
  void put_items(std::string_view items, bool is_negated, bool in_class) {
    if (in_class && is_negated) refuse("a negated escape in a character class");
    out_ += in_class ? std::string(items) : fmt::format("[{}{}]", is_negated ? "^" : "", items);
  }

  // Whether the escape stands for one character.
  bool escape(bool in_class) {
    if (at_ + 1 >= pattern_.size()) refuse("a backslash at the end");
    const char c = pattern_[at_ + 1];
    if (c == 's' || c == 'S') {
      put_items(kSpaceItems, c == 'S', in_class);
    } else if (c == 'd' || c == 'D') {
      put_items(category_items("Nd"), c == 'D', in_class);
    } else if (c == 'p' || c == 'P') {
      property(in_class);
      return true;
    } else if (c == 'x' || c == 'u') {
      code_point();
      return true;
    } else if (c == 'v') {
      out_ += "\\x0B";
    } else if (std::string_view("rntfae").find(c) != std::string_view::npos) {
      out_ += pattern_.substr(at_, 2);
    } else if (!in_class && std::string_view("AzZ").find(c) != std::string_view::npos) {
      copy(2);
      return false;
    } else if (is_letter(c) || is_digit(c) || static_cast<unsigned char>(c) >= 0x80) {
      refuse(fmt::format("'\\{}'", static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : "?"));
    } else {
      out_ += pattern_.substr(at_, 2);
    }
    at_ += 2;
    return true;
  }

  void property(bool in_class) {
    const std::size_t close = pattern_.find('}', at_);
    if (!at("\\p{") && !at("\\P{")) refuse("'\\p' without braces");
    if (close == std::string_view::npos) refuse("'\\p{' without '}'");
    bool is_negated = pattern_[at_ + 1] == 'P';
    std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    if (name.starts_with('^')) {
      is_negated = !is_negated;
      name.remove_prefix(1);
    }
    if (std::find(kCategories.begin(), kCategories.end(), name) == kCategories.end()) {
      refuse(fmt::format("'\\p{{{}}}'", name));
    }
    put_items(category_items(name), is_negated, in_class);
    at_ = close + 1;
  }

  static std::string category_items(std::string_view category) {
    std::string items = fmt::format("\\p{{{}}}", category);
    for (const UnicodeAddition& addition : unicode_additions()) {
      if (!addition.category.starts_with(category)) continue;
      items += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<unsigned>(addition.first),
                           static_cast<unsigned>(addition.last));
    }
    return items;
  }

  // \xHH below 0x80 (above, Oniguruma means a byte), \x{H...} and \uHHHH.
  void code_point() {
    const bool is_braced = at("\\x{");
    std::size_t begin = at_ + (is_braced ? 3 : 2);
    std::size_t end = begin;
    const std::size_t most = is_braced ? 6 : pattern_[at_ + 1] == 'u' ? 4 : 2;
    while (end < pattern_.size() && end < begin + most && is_hex(pattern_[end])) ++end;
    const std::string digits(pattern_.substr(begin, end - begin));
    const bool is_complete = is_braced
                                 ? !digits.empty() && end < pattern_.size() && pattern_[end] == '}'
                                 : digits.size() == most;
    if (!is_complete || (most == 2 && digits[0] > '7')) {
      refuse(fmt::format("'{}'", pattern_.substr(at_, 2)));
    }
    out_ += fmt::format("\\x{{{}}}", digits);
    at_ = end + (is_braced ? 1 : 0);
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
  int depth_ = 0;
  bool has_alternatives_ = false;
  std::size_t first_end_ = 0;  // of the first element in out_, if it is one character; else 0
};

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace tessera::text
