#include "text/utf8.h"

#include <cstdint>
#include <utility>

namespace tessera::text {

namespace {

constexpr char32_t kReplacement = 0xFFFD;

std::uint8_t byte_at(std::string_view text, std::size_t position) {
  return static_cast<std::uint8_t>(text[position]);
}

// What may follow a lead byte: how many bytes in all, and the range of the second one, which is
// where overlong forms, surrogates and values past U+10FFFF are excluded.
struct Lead {
  std::size_t n_bytes;  // 0: not a lead byte
  std::uint8_t second_min;
  std::uint8_t second_max;
};

Lead classify_lead(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  return {0, 0, 0};
}

}  // namespace

Sequence sequence_at(std::string_view text, std::size_t position) {
  const std::uint8_t first = byte_at(text, position);
  if (first < 0x80) return {SequenceKind::kCharacter, 1, first};
  const Lead lead = classify_lead(first);
  if (lead.n_bytes == 0) return {SequenceKind::kInvalid, 1, kReplacement};
  char32_t code_point = first & (0x7Fu >> lead.n_bytes);
  for (std::size_t i = 1; i < lead.n_bytes; ++i) {
    if (position + i == text.size()) return {SequenceKind::kIncomplete, i, kReplacement};
    const std::uint8_t byte = byte_at(text, position + i);
    const std::uint8_t min = i == 1 ? lead.second_min : 0x80;
    const std::uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {SequenceKind::kInvalid, i, kReplacement};
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  return {SequenceKind::kCharacter, lead.n_bytes, code_point};
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    if (byte_at(text, position) < 0x80) {
      ++position;
      continue;
    }
    const Sequence sequence = sequence_at(text, position);
    if (sequence.kind != SequenceKind::kCharacter) return false;
    position += sequence.n_bytes;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string valid;
  valid.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const Sequence sequence = sequence_at(text, position);
    if (sequence.kind == SequenceKind::kCharacter) {
      valid += text.substr(position, sequence.n_bytes);
    } else {
      append_utf8(valid, kReplacement);
    }
    position += sequence.n_bytes;
  }
  return valid;
}

MarkedText replace_invalid_utf8(const MarkedText& marked) {
  if (is_valid_utf8(marked.text)) return marked;
  MarkedText valid;
  for (std::size_t position = 0; position < marked.text.size();) {
    const Sequence sequence = sequence_at(marked.text, position);
    const std::size_t end = position + sequence.n_bytes;
    std::string part;
    append_utf8(part, sequence.code_point);
    if (marked.touches_user(position, end)) {
      valid.append(MarkedText::from_user(std::move(part)));
    } else {
      valid.append(part);
    }
    position = end;
  }
  return valid;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&text](char32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_python_space(char32_t code_point) {
  if (code_point < 0x80) {
    return code_point == ' ' || (code_point >= 0x09 && code_point <= 0x0D) ||
           (code_point >= 0x1C && code_point <= 0x1F);
  }
  return code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
         code_point == 0x3000;
}

}  // namespace tessera::text
