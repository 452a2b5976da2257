// Headers of packed models: an input is read as the start of a file, and again as the header's JSON
// with the right preamble before it, so that changes need not keep the checksum right.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include <tessera/error.h>

#include "base/checksum.h"
#include "model/packed/packed_header.h"

namespace {

using tessera::PackedHeader;

void require(bool condition) {
  if (!condition) std::abort();
}

void read(std::span<const std::byte> start, std::size_t file_size) {
  try {
    const PackedHeader h = PackedHeader::parse(start, file_size, "input");
    require(h.file_bytes() == file_size);
    require(h.arena_bytes <= file_size && h.embedding_bytes() <= file_size);
    for (const PackedHeader::Part& part : h.parts) {
      require(part.bytes() <= h.arena_bytes && part.offset <= h.arena_bytes - part.bytes());
    }
    require(h.checksums.size() == h.n_blocks());
    std::size_t end = h.arena_offset;
    for (std::size_t i = 0; i < h.n_blocks(); ++i) {
      require(h.block_offset(i) == end && h.block_bytes(i) > 0);
      end += h.block_bytes(i);
    }
    require(end == file_size);
  } catch (const tessera::Error& error) {
    require(std::strchr(error.what(), '\n') == nullptr);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  read(input, size);

  std::string start = "TSSPACK1";
  for (const std::uint64_t value : {std::uint64_t{size}, tessera::checksum(input)}) {
    for (int shift = 0; shift < 64; shift += 8) start += static_cast<char>(value >> shift & 0xff);
  }
  start.append(reinterpret_cast<const char*>(data), size);
  const auto file = std::as_bytes(std::span(start));
  read(file, file.size());
  // The one size that the seeds' headers ask for, so that they are taken as a whole.
  read(file, (std::size_t{2} << 20) + 4096 + 64);
  return 0;
}
