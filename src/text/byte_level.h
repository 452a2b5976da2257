// The printable alphabet in which byte-level BPE files spell bytes: one character for each byte
// value.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::text {

// The bytes that a token's spelling in tokenizer.json stands for ("Ġthe" is " the"); none if a
// character lies outside the alphabet, as in "<｜User｜>".
std::optional<std::string> bytes_from_spelling(std::string_view spelling);

// The character that stands for a byte.
std::string spelling_of(unsigned char byte);

}  // namespace tessera::text
