#include "text/template_text.h"

#include <algorithm>

#include "text/regex.h"
#include "text/utf8.h"

namespace tessera::text {

MarkedText strip(const MarkedText& text, const std::optional<std::string>& characters,
                 StripSide side) {
  const std::string_view bytes = text.text;
  const auto is_stripped = [&](std::size_t begin) {
    const Sequence character = sequence_at(bytes, begin);
    if (!characters) return is_python_space(character.code_point);
    // One well-formed character is found in a string of them only where it stands.
    return characters->find(bytes.substr(begin, character.n_bytes)) != std::string::npos;
  };
  const std::vector<std::size_t> offsets = character_offsets(bytes);
  std::size_t first = 0;
  std::size_t last = offsets.size() - 1;
  if (side != StripSide::kRight) {
    while (first < last && is_stripped(offsets[first])) ++first;
  }
  if (side != StripSide::kLeft) {
    while (last > first && is_stripped(offsets[last - 1])) --last;
  }
  return text.slice(offsets[first], offsets[last]);
}

std::vector<MarkedText> split(const MarkedText& text, const std::optional<std::string>& separator,
                              std::int64_t max_splits) {
  std::vector<MarkedText> parts;
  const std::string_view bytes = text.text;
  const auto may_split = [&] {
    return max_splits < 0 || static_cast<std::int64_t>(parts.size()) < max_splits;
  };
  std::size_t begin = 0;
  if (separator) {
    while (may_split()) {
      const std::size_t end = bytes.find(*separator, begin);
      if (end == std::string_view::npos) break;
      parts.push_back(text.slice(begin, end));
      begin = end + separator->size();
    }
    parts.push_back(text.slice(begin, bytes.size()));
    return parts;
  }
  const auto skip = [&](std::size_t from, bool spaces) {
    while (from < bytes.size()) {
      const Sequence character = sequence_at(bytes, from);
      if (is_python_space(character.code_point) != spaces) break;
      from += character.n_bytes;
    }
    return from;
  };
  for (begin = skip(0, true); begin < bytes.size();) {
    if (!may_split()) {  // the rest, without the white space at its end
      parts.push_back(strip(text.slice(begin, bytes.size()), std::nullopt, StripSide::kRight));
      break;
    }
    const std::size_t end = skip(begin, false);
    parts.push_back(text.slice(begin, end));
    begin = skip(end, true);
  }
  return parts;
}

MarkedText replace(const MarkedText& text, std::string_view old_text, const MarkedText& new_text,
                   std::int64_t max_count) {
  MarkedText result;
  std::size_t begin = 0;
  for (std::int64_t count = 0; max_count < 0 || count < max_count; ++count) {
    const std::size_t end = text.text.find(old_text, begin);
    if (end == std::string::npos) break;
    result.append(text.slice(begin, end));
    result.append(new_text);
    begin = end + old_text.size();
  }
  result.append(text.slice(begin, text.text.size()));
  return result;
}

std::optional<MarkedText> change_case(const MarkedText& text, bool to_upper) {
  static const Regex kCasedOutsideAscii = Regex::compile_native(R"((?![\x00-\x7F])\p{Cased})");
  ByteRange match;
  if (RegexSearch(kCasedOutsideAscii).next(text.text, 0, match)) return std::nullopt;
  MarkedText changed = text;
  for (char& c : changed.text) {
    if (to_upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!to_upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return changed;
}

std::vector<std::size_t> character_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < text.size(); i += sequence_at(text, i).n_bytes) offsets.push_back(i);
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace tessera::text
