// Reading UTF-8, with one rule for bytes that are not: each maximal subpart of an ill-formed
// sequence (Unicode 3.9, "U+FFFD substitution of maximal subparts") becomes one U+FFFD.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/marked_text.h"

namespace tessera::text {

enum class SequenceKind {
  kCharacter,   // a well-formed character
  kInvalid,     // bytes that no further bytes can make well formed
  kIncomplete,  // the text ends inside what may become a character
};

struct Sequence {
  SequenceKind kind;
  std::size_t n_bytes;  // 1 to 4
  char32_t code_point;  // of a kCharacter; U+FFFD otherwise
};

// The sequence that starts at text[position]; position < text.size().
Sequence sequence_at(std::string_view text, std::size_t position);

bool is_valid_utf8(std::string_view text);

// The text with every ill-formed part, an incomplete end included, replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);
MarkedText replace_invalid_utf8(const MarkedText& marked);  // the marks move along

void append_utf8(std::string& text, char32_t code_point);  // of a Unicode scalar value

// White_Space as Python's str.isspace() and str.strip() see it.
bool is_python_space(char32_t code_point);

}  // namespace tessera::text
