#include "model/packed/checkpoint_digest.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>

#include "tile/jit/hash.h"

namespace tessera {

namespace {

// Tensors that are sampled: on a disk that is not cached, each costs one read.
constexpr std::size_t kSamples = 256;
constexpr std::size_t kSampleBytes = 4096;

}  // namespace

std::string checkpoint_digest(const Checkpoint& checkpoint) {
  tile::Hasher hasher;
  const std::vector<std::string> names = checkpoint.names();
  const std::size_t every = std::max<std::size_t>(names.size() / kSamples, 1);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const CheckpointTensor& tensor = checkpoint.get(names[i]);
    hasher.add(names[i]);
    hasher.add(to_string(tensor.dtype()));
    for (std::int64_t size : tensor.shape()) hasher.add(static_cast<std::uint64_t>(size));
    if (i % every != 0) continue;
    const std::span<const std::byte> bytes = tensor.bytes();
    const std::size_t n = std::min(bytes.size(), kSampleBytes);
    const std::size_t first = (bytes.size() - n) / 2;
    hasher.add_bytes(bytes.subspan(first, n));
    tensor.release(first, n);
  }
  return hasher.result().to_hex();
}

std::string checkpoint_files_digest(const Checkpoint& checkpoint) {
  std::set<std::string> files;
  for (const std::string& name : checkpoint.names())
    files.insert(checkpoint.get(name).file->name());
  tile::Hasher hasher;
  for (const std::string& file : files) {
    std::error_code unknown;  // then the samples alone tell
    hasher.add(std::filesystem::path(file).filename().string());
    hasher.add(static_cast<std::uint64_t>(std::filesystem::file_size(file, unknown)));
    hasher.add(static_cast<std::uint64_t>(
        std::filesystem::last_write_time(file, unknown).time_since_epoch().count()));
  }
  return hasher.result().to_hex();
}

}  // namespace tessera
