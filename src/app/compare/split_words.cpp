#include "app/compare/split_words.h"

#include <algorithm>

#include "base/fail.h"
#include "io/quote.h"

namespace tessera::app {

namespace {

constexpr std::string_view kSpace = " \t\n";

// Characters that a shell leaves alone outside of quotes; what is not ASCII is among them.
bool is_plain(char c) {
  constexpr std::string_view kSigns = "-_=./,:+@%";
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
         kSigns.find(c) != std::string_view::npos || static_cast<unsigned char>(c) >= 0x80;
}

class Splitter {
 public:
  Splitter(std::string_view text, std::string_view option) : text_(text), option_(option) {}

  std::vector<std::string> words() {
    std::vector<std::string> all;
    while (skip_space()) all.push_back(word());
    return all;
  }

 private:
  bool skip_space() {
    at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
    return at_ < text_.size();
  }

  std::string word() {
    std::string word;
    while (at_ < text_.size() && kSpace.find(text_[at_]) == std::string_view::npos) {
      const char c = text_[at_++];
      if (c == '\'') {
        single_quoted(word);
      } else if (c == '"') {
        double_quoted(word);
      } else if (c == '\\') {
        if (at_ == text_.size()) refuse("ends with a backslash");
        word += text_[at_++];
      } else {
        word += c;
      }
    }
    return word;
  }

  void single_quoted(std::string& word) {
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) refuse("has a quote that is not closed");
    word += text_.substr(at_, end - at_);
    at_ = end + 1;
  }

  void double_quoted(std::string& word) {
    constexpr std::string_view kEscaped = "\"\\$`";
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return;
      const bool escape =
          c == '\\' && at_ < text_.size() && kEscaped.find(text_[at_]) != std::string_view::npos;
      word += escape ? text_[at_++] : c;
    }
    refuse("has a quote that is not closed");
  }

  [[noreturn]] void refuse(std::string_view why) const {
    fail(ErrorCode::kInvalidArgument, "{} {}: {}", option_, why, in_quotes(text_));
  }

  std::string_view text_;
  std::string_view option_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> split_words(std::string_view text, std::string_view option) {
  return Splitter(text, option).words();
}

std::string join_words(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && std::ranges::all_of(word, is_plain)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace tessera::app
