// The string functions of chat templates; they keep a user's marks, and count in characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/marked_text.h"

namespace tessera::text {

enum class StripSide { kBoth, kLeft, kRight };

// Without characters: white space.
MarkedText strip(const MarkedText& text, const std::optional<std::string>& characters,
                 StripSide side);

// At most max_splits splits; negative: no bound. Without a separator: at runs of white space, none
// at the ends. An empty separator is the caller's error to report.
std::vector<MarkedText> split(const MarkedText& text, const std::optional<std::string>& separator,
                              std::int64_t max_splits);

// The first max_count occurrences (negative: all); old_text is not empty.
MarkedText replace(const MarkedText& text, std::string_view old_text, const MarkedText& new_text,
                   std::int64_t max_count);

// None for letters outside ASCII that have a case: their rules are not built in.
std::optional<MarkedText> change_case(const MarkedText& text, bool to_upper);

// Byte offsets of the characters, and the end as one more.
std::vector<std::size_t> character_offsets(std::string_view text);

}  // namespace tessera::text
