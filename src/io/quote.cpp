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

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    if (result.size() > kMaxBytes) {
      result += "...";
      break;
    }
    const auto byte = static_cast<unsigned char>(text[0]);
    const std::size_t length = sequence_length(text);
    if (byte == '\n') {
      result += "\\n";
    } else if (byte == '"' || byte == '\\') {
      result += {'\\', text[0]};
    } else if (byte < 0x20 || byte == 0x7f || length == 0) {
      fmt::format_to(std::back_inserter(result), "\\x{:02x}", byte);
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result + '"';
}

}  // namespace tessera
