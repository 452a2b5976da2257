// A checksum for large blocks of data. It finds accidents, not forgeries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera {

// About as fast as memory is read. Any change of up to eight adjacent bytes changes it.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace tessera
