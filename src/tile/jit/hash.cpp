#include "tile/jit/hash.h"

#include <fmt/format.h>

namespace tessera::tile {

namespace {

constexpr unsigned __int128 kPrime = (static_cast<unsigned __int128>(0x1000000u) << 64) | 0x13bu;

}  // namespace

std::string Hash128::to_hex() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

void Hasher::add_bytes(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    state_ ^= static_cast<unsigned>(byte);
    state_ *= kPrime;
  }
}

void Hasher::add(std::string_view text) {
  add(static_cast<std::uint64_t>(text.size()));
  add_bytes(std::as_bytes(std::span(text)));
}

void Hasher::add(std::uint64_t value) {
  add_bytes(std::as_bytes(std::span(&value, 1)));
}

Hash128 Hasher::result() const {
  return {static_cast<std::uint64_t>(state_ >> 64), static_cast<std::uint64_t>(state_)};
}

Hash128 hash_of(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.add_bytes(bytes);
  return hasher.result();
}

}  // namespace tessera::tile
