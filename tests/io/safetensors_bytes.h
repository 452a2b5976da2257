// Safetensors files written byte by byte, so that they may be wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

inline std::string little_endian_64(std::uint64_t value) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// The header as given, and n_data_bytes zeros after it.
inline std::string safetensors_bytes(std::string_view header, std::size_t n_data_bytes) {
  return little_endian_64(header.size()) + std::string(header) + std::string(n_data_bytes, '\0');
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace tessera
