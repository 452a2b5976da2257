#include "app/analyze/html_text.h"

#include "io/quote.h"
#include "text/utf8.h"

namespace tessera::app::analyze {

namespace {

// Blocks of the Unicode East Asian Width property W and F, in the ranges that matter.
bool is_wide(char32_t c) {
  return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0x303e) ||
         (c >= 0x3041 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) ||
         (c >= 0xff00 && c <= 0xff60) || (c >= 0xffe0 && c <= 0xffe6) ||
         (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd);
}

bool is_mark(char32_t c) {
  return (c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200f) || (c >= 0xfe00 && c <= 0xfe0f);
}

std::size_t width_of(char32_t c) {
  return is_mark(c) ? 0 : is_wide(c) ? 2 : 1;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : on_one_line(text)) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size();) {
    const text::Sequence sequence = text::sequence_at(text, i);
    width += width_of(sequence.code_point);
    i += sequence.n_bytes;
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  std::size_t width = 0;
  std::size_t end = 0;
  while (end < text.size()) {
    const text::Sequence sequence = text::sequence_at(text, end);
    width += width_of(sequence.code_point);
    if (width + 1 > columns) break;
    end += sequence.n_bytes;
  }
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace tessera::app::analyze
