#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace tessera::text {

namespace {

// Bytes that print stand for themselves; the 68 others follow in order from U+0100 on.
constexpr char32_t kAlphabetEnd = 0x100 + 68;

bool prints(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<std::int16_t, kAlphabetEnd> make_byte_of() {
  std::array<std::int16_t, kAlphabetEnd> byte_of;
  byte_of.fill(-1);
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    byte_of[prints(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return byte_of;
}

}  // namespace

std::optional<std::string> bytes_from_spelling(std::string_view spelling) {
  static const std::array<std::int16_t, kAlphabetEnd> kByteOf = make_byte_of();
  std::string bytes;
  for (std::size_t position = 0; position < spelling.size();) {
    const Sequence sequence = sequence_at(spelling, position);
    if (sequence.code_point >= kAlphabetEnd || kByteOf[sequence.code_point] < 0)
      return std::nullopt;
    bytes += static_cast<char>(kByteOf[sequence.code_point]);
    position += sequence.n_bytes;
  }
  return bytes;
}

std::string spelling_of(unsigned char byte) {
  char32_t character = byte;
  if (!prints(byte)) {
    character = 0x100;
    for (unsigned before = 0; before < byte; ++before) character += !prints(before);
  }
  std::string spelling;
  append_utf8(spelling, character);
  return spelling;
}

}  // namespace tessera::text
