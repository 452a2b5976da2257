#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

#include "base/fail.h"
#include "text/byte_level.h"

namespace tessera::text {

namespace {

// Ids index arrays; a file may leave room for later tokens, but not for a typing error.
constexpr std::int64_t kMostUnusedIds = 1 << 16;

std::size_t hash_pair(std::uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15u;  // 2^64 divided by the golden ratio: spreads consecutive ids
  return static_cast<std::size_t>(pair ^ pair >> 32);
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::pair<std::string, std::int64_t>> tokens)
    : tokens_(std::move(tokens)) {
  const auto id_end = static_cast<std::int64_t>(tokens_.size()) + kMostUnusedIds;
  ids_.reserve(tokens_.size());
  std::int64_t largest = -1;
  for (const auto& [spelling, id] : tokens_) {
    if (id < 0 || id >= id_end) {
      fail(ErrorCode::kBadTokenizer, "model.vocab: the id {} of '{}' is out of range", id,
           spelling);
    }
    ids_[spelling] = static_cast<std::int32_t>(id);  // of a spelling given twice, the last id holds
    largest = std::max(largest, id);
  }
  bytes_.resize(largest + 1);
  is_used_.resize(largest + 1);
  is_byte_level_.resize(largest + 1);
  for (const auto& [spelling, id] : ids_) {
    if (is_used_[id]) {
      fail(ErrorCode::kBadTokenizer, "model.vocab: two tokens have the id {}, one of them is '{}'",
           id, spelling);
    }
    is_used_[id] = true;
    std::optional<std::string> bytes = bytes_from_spelling(spelling);
    is_byte_level_[id] = bytes.has_value();
    bytes_[id] = bytes ? std::move(*bytes) : std::string(spelling);
  }
}

std::int32_t Vocabulary::id_of(std::string_view spelling) const {
  const auto found = ids_.find(spelling);
  return found == ids_.end() ? -1 : found->second;
}

Bpe::Bpe(const Vocabulary& vocabulary,
         const std::vector<std::pair<std::string, std::string>>& merges, bool whole_pieces,
         const std::vector<std::int32_t>& never_whole) {
  byte_ids_.fill(-1);
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id) || !vocabulary.is_byte_level(id)) continue;
    const std::string& bytes = vocabulary.bytes_of(id);
    if (bytes.size() == 1) byte_ids_[static_cast<std::uint8_t>(bytes[0])] = id;
    if (whole_pieces &&
        std::find(never_whole.begin(), never_whole.end(), id) == never_whole.end()) {
      whole_.emplace(bytes, id);
    }
  }

  merges_.resize(std::bit_ceil(merges.size() * 2 + 2));
  std::string merged;
  std::uint32_t rank = 0;
  for (const auto& [left, right] : merges) {
    merged.assign(left).append(right);
    const std::int32_t left_id = vocabulary.id_of(left);
    const std::int32_t right_id = vocabulary.id_of(right);
    const std::int32_t merged_id = vocabulary.id_of(merged);
    if (left_id < 0 || right_id < 0 || merged_id < 0) {
      fail(ErrorCode::kBadTokenizer, "model.merges: '{}' is not in the vocabulary",
           left_id < 0    ? left
           : right_id < 0 ? right
                          : merged);
    }
    const auto pair =
        static_cast<std::uint64_t>(left_id) << 32 | static_cast<std::uint32_t>(right_id);
    insert({pair, rank++, merged_id});
  }
}

// Of a pair given twice, the last rank holds.
void Bpe::insert(const Merge& merge) {
  std::size_t slot = hash_pair(merge.pair) & (merges_.size() - 1);
  while (merges_[slot].pair != kNoPair && merges_[slot].pair != merge.pair) {
    slot = (slot + 1) & (merges_.size() - 1);
  }
  merges_[slot] = merge;
}

const Bpe::Merge* Bpe::find(std::int32_t left, std::int32_t right) const {
  const auto pair = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  std::size_t slot = hash_pair(pair) & (merges_.size() - 1);
  while (merges_[slot].pair != kNoPair) {
    if (merges_[slot].pair == pair) return &merges_[slot];
    slot = (slot + 1) & (merges_.size() - 1);
  }
  return nullptr;
}

void Bpe::encode(std::string_view piece, Cache& cache, std::vector<std::int32_t>& ids) const {
  const auto [entry, is_new] = cache.pieces_.try_emplace(piece);
  Cache::Range& range = entry->second;
  if (is_new) {
    range.begin = cache.ids_.size();
    const auto whole = whole_.find(piece);
    if (whole != whole_.end()) {
      cache.ids_.push_back(whole->second);
    } else {
      merge(piece, cache.ids_);
    }
    range.count = cache.ids_.size() - range.begin;
  }
  const auto begin = cache.ids_.begin() + static_cast<std::ptrdiff_t>(range.begin);
  ids.insert(ids.end(), begin, begin + static_cast<std::ptrdiff_t>(range.count));
}

// The pair of lowest rank is merged first, the leftmost of equals; symbols are a linked list in an
// array, and candidates wait in a heap, which keeps a piece of n bytes at n log n.
void Bpe::merge(std::string_view piece, std::vector<std::int32_t>& ids) const {
  constexpr std::int32_t kGone = -1;
  struct Symbol {
    std::int32_t id;
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct Candidate {
    std::uint64_t rank_and_position;
    std::int32_t merged;
    bool operator>(const Candidate& other) const {
      return rank_and_position > other.rank_and_position;
    }
  };
  if (piece.size() >= UINT32_MAX) {
    fail(ErrorCode::kInvalidArgument, "a text of {} bytes without a break cannot be tokenised",
         piece.size());
  }
  const auto end = static_cast<std::uint32_t>(piece.size());
  std::vector<Symbol> symbols(end);
  for (std::uint32_t i = 0; i < end; ++i) {
    const auto byte = static_cast<std::uint8_t>(piece[i]);
    if (byte_ids_[byte] < 0) {
      fail(ErrorCode::kBadTokenizer, "the tokenizer's vocabulary has no token for byte {:#04x}",
           byte);
    }
    symbols[i] = {byte_ids_[byte], i - 1, i + 1};
  }

  std::vector<Candidate> waiting;
  const auto candidate = [&](std::uint32_t left, std::uint32_t right) {
    const Merge* found = find(symbols[left].id, symbols[right].id);
    if (found == nullptr) return false;
    waiting.push_back({static_cast<std::uint64_t>(found->rank) << 32 | left, found->merged});
    return true;
  };
  const auto later = std::greater<>();
  const auto push = [&](std::uint32_t left, std::uint32_t right) {
    if (candidate(left, right)) std::push_heap(waiting.begin(), waiting.end(), later);
  };
  for (std::uint32_t i = 0; i + 1 < end; ++i) candidate(i, i + 1);
  std::make_heap(waiting.begin(), waiting.end(), later);

  while (!waiting.empty()) {
    std::pop_heap(waiting.begin(), waiting.end(), later);
    const Candidate best = waiting.back();
    waiting.pop_back();
    const auto left = static_cast<std::uint32_t>(best.rank_and_position);
    Symbol& symbol = symbols[left];
    if (symbol.id == kGone || symbol.next == end) continue;
    Symbol& right = symbols[symbol.next];
    // A candidate is stale once either side has changed, unless the new pair makes the same token.
    const Merge* found = find(symbol.id, right.id);
    if (found == nullptr || found->merged != best.merged) continue;
    symbol.id = best.merged;
    symbol.next = right.next;
    right.id = kGone;
    if (symbol.next != end) {
      symbols[symbol.next].previous = left;
      push(left, symbol.next);
    }
    if (left != 0) push(symbol.previous, left);
  }
  for (std::uint32_t i = 0; i != end; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace tessera::text
