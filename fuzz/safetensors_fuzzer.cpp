// Safetensors headers: an input is read as a whole file, and again as the header of a file with a
// little data, so that changes need not keep the length field right.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <tessera/error.h>

#include "io/safetensors.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read(std::span<const std::byte> file) {
  try {
    const auto weights = tessera::SafetensorsFile::parse(file, "input");
    std::size_t total = 0;
    for (const tessera::SafetensorsEntry& entry : weights.entries()) {
      require(weights.find(entry.name) == &entry);
      const auto bytes = weights.bytes(entry);
      const std::vector<std::byte> copy(bytes.begin(),
                                        bytes.end());  // the sanitizer sees every read
      total += copy.size();
    }
    require(total < file.size());  // the tensors do not overlap, and there is a header besides
  } catch (const tessera::Error& error) {
    require(std::strchr(error.what(), '\n') == nullptr);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kDataBytes = 64;
  const auto input = std::as_bytes(std::span(data, size));
  read(input);

  std::vector<std::byte> file;
  for (int shift = 0; shift < 64; shift += 8) {
    file.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(size) >> shift & 0xff));
  }
  file.insert(file.end(), input.begin(), input.end());
  file.resize(file.size() + kDataBytes);
  read(file);
  return 0;
}
