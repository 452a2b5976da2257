// Text that remembers which parts of it a user wrote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

// Bytes [begin, end) of a string.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const ByteRange&) const = default;
};

// A string and the byte ranges of it that came from a user. The ranges are sorted, not empty,
// disjoint and not adjacent (append() keeps that). The tokenizer recognises no control token that
// touches one, so that nobody can write "<｜end▁of▁sentence｜>" into a message and have it act.
struct MarkedText {
  std::string text;
  std::vector<ByteRange> user_ranges;

  // All of text marked as a user's.
  static MarkedText from_user(std::string text);

  // Bytes [begin, end), with the marks inside.
  MarkedText slice(std::size_t begin, std::size_t end) const;

  void append(const MarkedText& tail);
  void append(std::string_view unmarked_tail) { text += unmarked_tail; }

  // Whether a user's byte lies in [begin, end).
  bool touches_user(std::size_t begin, std::size_t end) const;

  bool operator==(const MarkedText&) const = default;
};

}  // namespace tessera::text
