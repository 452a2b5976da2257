// Regular expressions as tokenizer.json means them: the `tokenizers` package runs Oniguruma (Ruby
// syntax, UTF-8); here the pattern is translated and run by PCRE2, compiled to machine code where
// the platform allows it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "text/marked_text.h"

struct pcre2_real_code_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;

namespace tessera::text {

// A compiled pattern. Immutable: threads may share it.
class Regex {
 public:
  // An Oniguruma pattern. Constructs that the two engines read differently throw
  // Error(kUnsupported), broken patterns Error(kBadTokenizer); both name the pattern.
  static Regex compile(std::string_view pattern);
  static Regex literal(std::string_view text);  // text is not empty
  static Regex compile_native(std::string_view pcre2_pattern);

  bool can_match_empty() const { return can_match_empty_; }

 private:
  friend class RegexSearch;
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };

  static Regex compile_pcre2(std::string_view pcre2, std::string_view shown, unsigned options);

  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
  std::string shown_;  // the pattern as written, for errors
  bool has_jit_ = false;
  bool can_match_empty_ = false;
};

// The working memory of searches with one pattern: one per thread. The Regex must outlive it.
class RegexSearch {
 public:
  explicit RegexSearch(const Regex& regex);

  // Finds the leftmost match that starts at or after from; subject is valid UTF-8 and from lies on
  // a character. Lookaround sees all of subject. Effort is bounded in proportion to the subject; a
  // pattern that backtracks further throws Error(kUnsupported).
  bool next(std::string_view subject, std::size_t from, ByteRange& match);

 private:
  struct Deleter {
    void operator()(pcre2_real_match_data_8* data) const;
    void operator()(pcre2_real_match_context_8* context) const;
  };

  const Regex* regex_;
  std::unique_ptr<pcre2_real_match_data_8, Deleter> data_;
  std::unique_ptr<pcre2_real_match_context_8, Deleter> context_;
};

}  // namespace tessera::text
