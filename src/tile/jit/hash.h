// A 128-bit hash for cache keys and checksums. It finds accidents, not forgeries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::tile {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
  std::string to_hex() const;  // 32 digits
};

// FNV-1a over everything added. add(string) also adds the length, so that two strings cannot trade
// characters.
class Hasher {
 public:
  void add_bytes(std::span<const std::byte> bytes);
  void add(std::string_view text);
  void add(std::uint64_t value);
  Hash128 result() const;

 private:
  unsigned __int128 state_ =
      (static_cast<unsigned __int128>(0x6c62272e07bb0142u) << 64) | 0x62b821756295c58du;
};

Hash128 hash_of(std::span<const std::byte> bytes);

}  // namespace tessera::tile
