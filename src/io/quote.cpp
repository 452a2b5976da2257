#include "io/quote.h"

#include <cstddef>
#include <iterator>

#include <fmt/format.h>

namespace tessera {

namespace {

constexpr std::size_t kMaxBytes = 120;  // the longest tensor names of the family take about 60

// Length of the UTF-8 sequence that text starts with, 0 if it is not one. Overlong forms and
// surrogates are let through: nothing here depends on them.
std::size_t sequence_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80             ? 1
                             : (lead & 0xe0) == 0xc0 ? 2
                             : (lead & 0xf0) == 0xe0 ? 3
                             : (lead & 0xf8) == 0xf0 ? 4
                                                     : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

bool is_control(std::string_view character) {
  const auto byte = static_cast<unsigned char>(character[0]);
  // U+0080 to U+009F are commands to a terminal too.
  const bool is_c1 =
      character.size() == 2 && byte == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  return byte < 0x20 || byte == 0x7f || is_c1;
}

// Moves one character, escaped where a message must not hold it, from text to the end of result.
void take_character(std::string_view& text, std::string& result) {
  const std::size_t length = sequence_length(text);
  const std::string_view character = text.substr(0, length == 0 ? 1 : length);
  text.remove_prefix(character.size());
  if (character == "\n") {
    result += "\\n";
  } else if (length == 0 || is_control(character)) {
    for (const char c : character) {
      fmt::format_to(std::back_inserter(result), "\\x{:02x}", static_cast<unsigned char>(c));
    }
  } else {
    result += character;
  }
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    if (result.size() > kMaxBytes) {
      result += "...";
      break;
    }
    if (text[0] == '"' || text[0] == '\\') result += '\\';
    take_character(text, result);
  }
  return result + '"';
}

std::string on_one_line(std::string_view text) {
  std::string result;
  while (!text.empty()) take_character(text, result);
  return result;
}

}  // namespace tessera
