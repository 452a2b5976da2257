// The header of a packed model: one file with all weights as a run needs them in memory.
//
// A file is: the preamble (magic, length of the header, checksum of the header, 8 bytes each,
// little-endian), the header (JSON), zeros up to a multiple of 2 MB, the arena (all packed matrices
// and vectors at their offsets), zeros up to a multiple of 4 KB, the rows of the embedding as the
// checkpoint has them. From the arena on, the header has a checksum for every block of 4 MB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tessera/dtype.h>
#include <tessera/weight_format.h>

#include "model/kv_cache.h"
#include "model/weight_plan.h"

namespace tessera {

struct PackedHeader {
  static constexpr std::size_t kPreambleBytes = 24;
  static constexpr std::size_t kMaxHeaderBytes = std::size_t{64} << 20;
  // So that a mapped arena may have huge pages.
  static constexpr std::size_t kArenaAlignment = std::size_t{2} << 20;
  static constexpr std::size_t kEmbeddingAlignment = 4096;
  static constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
  // Raised when the file's structure changes, and when a panel's layout or what is packed into it.
  static constexpr std::int64_t kFormatVersion = 1;
  static constexpr std::int64_t kLayoutVersion = 2;

  // A matrix or, with k = 0, a vector of the arena.
  struct Part {
    std::string name;
    tile::cpu::PanelLayout layout = tile::cpu::PanelLayout::kF32;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t n_weights = 1;
    std::size_t offset = 0;

    bool operator==(const Part&) const = default;
    std::size_t bytes() const;
  };

  WeightFormat format = WeightFormat::kBF16;
  KvCacheForm form = KvCacheForm::kLatent;
  std::string config_digest;      // of the tensors that config.json asks for
  std::string checkpoint_digest;  // of what was packed
  std::size_t arena_offset = 0;   // from the start of the file
  std::size_t arena_bytes = 0;
  DType embedding_dtype = DType::kF32;
  std::int64_t n_tokens = 0;
  std::int64_t hidden = 0;
  std::vector<Part> parts;
  std::vector<std::uint64_t> checksums;  // of the blocks from arena_offset to the end

  std::size_t embedding_offset() const;
  std::size_t embedding_bytes() const;
  std::size_t file_bytes() const { return embedding_offset() + embedding_bytes(); }
  std::size_t n_blocks() const;
  // Block i, as a range of the file.
  std::size_t block_offset(std::size_t i) const { return arena_offset + i * kBlockBytes; }
  std::size_t block_bytes(std::size_t i) const;

  // Places the arena behind a header of this many parts and checksums.
  void place_arena();
  // Preamble, header and zeros: everything before the arena.
  std::string to_bytes() const;

  // Whether a file begins as a packed model of any state or version does.
  static bool begins(std::span<const std::byte> start);
  // Reads the start of a file of file_size bytes; name is what errors call it. Throws
  // Error(kBadPackedFile): not such a file, of another version, damaged or cut off. What is
  // returned is consistent: every part, block and row lies inside the file.
  static PackedHeader parse(std::span<const std::byte> start, std::size_t file_size,
                            const std::string& name);
};

// The parts of such a model, as its packed file has them.
std::vector<PackedHeader::Part> parts_of(const WeightPlan& plan);

}  // namespace tessera
