#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <pcre2.h>

#include "base/fail.h"
#include "text/regex_syntax.h"

namespace tessera::text {

namespace {

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> message{};
  pcre2_get_error_message(code, message.data(), message.size());
  return reinterpret_cast<const char*>(message.data());
}

PCRE2_SPTR pcre2_bytes(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

void Regex::CodeDeleter::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Regex Regex::compile(std::string_view pattern) {
  // Oniguruma's ^ and $ are line anchors.
  return compile_pcre2(pcre2_from_oniguruma(pattern), pattern, PCRE2_MULTILINE);
}

Regex Regex::literal(std::string_view text) {
  return compile_pcre2(text, text, PCRE2_LITERAL);
}

Regex Regex::compile_native(std::string_view pattern) {
  return compile_pcre2(pattern, pattern, 0);
}

Regex Regex::compile_pcre2(std::string_view pcre2, std::string_view shown, unsigned options) {
  struct ContextDeleter {
    void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  };
  const std::unique_ptr<pcre2_compile_context, ContextDeleter> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE offset = 0;
  if ((options & PCRE2_LITERAL) == 0) options |= PCRE2_UCP;
  Regex regex;
  regex.shown_ = shown;
  regex.code_.reset(pcre2_compile(pcre2_bytes(pcre2), pcre2.size(), PCRE2_UTF | options, &code,
                                  &offset, context.get()));
  if (!regex.code_) {
    fail(ErrorCode::kBadTokenizer, "the regular expression '{}' cannot be compiled: {}", shown,
         pcre2_message(code));
  }
  // Where machine code cannot be made (memory that must not be executable), the interpreter serves.
  regex.has_jit_ = pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE) == 0;
  std::uint32_t can_match_empty = 0;
  pcre2_pattern_info(regex.code_.get(), PCRE2_INFO_MATCHEMPTY, &can_match_empty);
  regex.can_match_empty_ = can_match_empty != 0;
  return regex;
}

void RegexSearch::Deleter::operator()(pcre2_real_match_data_8* data) const {
  pcre2_match_data_free(data);
}

void RegexSearch::Deleter::operator()(pcre2_real_match_context_8* context) const {
  pcre2_match_context_free(context);
}

RegexSearch::RegexSearch(const Regex& regex)
    : regex_(&regex),
      data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)) {}

bool RegexSearch::next(std::string_view subject, std::size_t from, ByteRange& match) {
  // A class repeated over the whole subject may backtrack once a byte, for each of a few
  // alternatives.
  constexpr std::size_t kBacktracksPerByte = 16;
  constexpr std::size_t kBacktracksAtLeast = 100'000;
  const std::size_t limit = kBacktracksAtLeast + kBacktracksPerByte * subject.size();
  pcre2_set_match_limit(context_.get(),
                        static_cast<std::uint32_t>(std::min<std::size_t>(limit, UINT32_MAX)));

  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (regex_->has_jit_) {
    result = pcre2_jit_match(regex_->code_.get(), pcre2_bytes(subject), subject.size(), from,
                             PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its stack on the heap
    result = pcre2_match(regex_->code_.get(), pcre2_bytes(subject), subject.size(), from,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data_.get(), context_.get());
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    fail(ErrorCode::kUnsupported,
         "the regular expression '{}' takes too long on a text of {} bytes ({}); split the text",
         regex_->shown_, subject.size(), pcre2_message(result));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data_.get());
  match = {bounds[0], bounds[1]};
  return true;
}

}  // namespace tessera::text
