// Characters younger than Unicode 14, which PCRE2 10.42 knows; tokenizer.json files are read by
// engines with Unicode 16. Where PCRE2 is newer, naming them again changes nothing.
#pragma once

#include <span>
#include <string_view>

namespace tessera::text {

struct UnicodeAddition {
  std::string_view category;  // two letters, as in \p{Lu}
  char32_t first;
  char32_t last;
};

std::span<const UnicodeAddition> unicode_additions();

}  // namespace tessera::text
