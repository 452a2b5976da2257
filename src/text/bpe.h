// Byte-level BPE: a vocabulary, and the merges that build its tokens from bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera::text {

// Token ids by spelling and back. Ids are at least 0 and may have holes.
class Vocabulary {
 public:
  // Throws Error(kBadTokenizer) for an id out of range or one that two spellings claim.
  explicit Vocabulary(std::vector<std::pair<std::string, std::int64_t>> tokens);

  std::int32_t id_of(std::string_view spelling) const;                            // -1: none
  std::int32_t size() const { return static_cast<std::int32_t>(bytes_.size()); }  // largest id + 1

  bool has(std::int32_t id) const { return id >= 0 && id < size() && is_used_[id]; }
  const std::string& bytes_of(std::int32_t id) const { return bytes_[id]; }  // has(id)
  // Whether the token is spelled in the byte-level alphabet; only such tokens come out of BPE.
  bool is_byte_level(std::int32_t id) const { return is_byte_level_[id]; }

 private:
  std::vector<std::pair<std::string, std::int64_t>> tokens_;  // owns the spellings
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::vector<std::string> bytes_;
  std::vector<bool> is_used_;
  std::vector<bool> is_byte_level_;
};

class Bpe {
 public:
  // whole_pieces: a piece that is itself a token is not merged from its bytes ("ignore_merges"),
  // unless the token is one of never_whole.
  Bpe(const Vocabulary& vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
      bool whole_pieces, const std::vector<std::int32_t>& never_whole);

  // Remembers the pieces of one text: words repeat. Keys view into that text.
  class Cache {
   private:
    friend class Bpe;
    struct Range {
      std::size_t begin = 0;
      std::size_t count = 0;
    };
    std::unordered_map<std::string_view, Range> pieces_;
    std::vector<std::int32_t> ids_;
  };

  // Appends the ids of a piece (bytes, not spelling); a piece's bytes must outlive the cache.
  // Throws Error(kBadTokenizer) for a byte that the vocabulary lacks.
  void encode(std::string_view piece, Cache& cache, std::vector<std::int32_t>& ids) const;

 private:
  struct Merge {
    std::uint64_t pair = kNoPair;  // left id << 32 | right id
    std::uint32_t rank = 0;
    std::int32_t merged = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  void insert(const Merge& merge);
  const Merge* find(std::int32_t left, std::int32_t right) const;
  void merge(std::string_view piece, std::vector<std::int32_t>& ids) const;

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Merge> merges_;  // open addressing, a power of two in size, at most half full
  std::unordered_map<std::string_view, std::int32_t> whole_;  // views into the vocabulary's bytes
};

}  // namespace tessera::text
