// One call of generated attention, as tasks that may run anywhere.
//
// A unit is one row and one group of heads. Its tokens are cut into pieces, and each piece into
// blocks, by its length alone; states are merged in order. Who computes a piece is then free.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/mla_attention/mla_attention.h"
#include "tile/attention/attention.h"

namespace tessera::ops {

class GeneratedCall {
 public:
  GeneratedCall(const tile::Attention& kernel, const ConstHeads& query, const LatentPages& cache,
                std::span<const VisibleTokens> visible, float scale, const Heads& out)
      : kernel_(kernel),
        query_(query),
        cache_(cache),
        visible_(visible),
        scale_(scale),
        out_(out),
        groups_((query.heads + tile::kHeadGroup - 1) / tile::kHeadGroup),
        scratch_bytes_(aligned(kernel.plan().scratch_bytes)),
        state_bytes_(aligned(kernel.plan().state_bytes)),
        packed_bytes_(aligned(kernel.plan().packed_bytes)) {}

  static const tile::Attention& kernel_for(const LatentPages& cache) {
    return tile::shared_attention(
        tile::AttentionShape{cache.dtype, cache.latent_dim, cache.rope_dim, cache.page_tokens});
  }

  // Of all units: multiply-adds.
  std::int64_t work() const {
    std::int64_t work = 0;
    for (std::int64_t row = 0; row < query_.rows; ++row) work += length(row);
    return work * groups_ * tile::kHeadGroup * (cache_.row_values() + cache_.latent_dim);
  }

  std::int64_t groups() const { return groups_; }
  std::int64_t units() const { return query_.rows * groups_; }
  std::int64_t row_of(std::int64_t unit) const { return unit / groups_; }
  std::int64_t first_head(std::int64_t unit) const { return unit % groups_ * tile::kHeadGroup; }
  std::int64_t heads_of(std::int64_t unit) const {
    return std::min<std::int64_t>(tile::kHeadGroup, query_.heads - first_head(unit));
  }
  std::int64_t pieces(std::int64_t row) const { return pieces_of(length(row), cache_.page_tokens); }
  // The most pieces that a row of up to `longest` tokens has.
  static std::int64_t most_pieces(std::int64_t longest, std::int64_t page_tokens) {
    std::int64_t most = pieces_of(longest, page_tokens);
    for (const PieceLength& p : kPieceLengths) {
      most = std::max(most, pieces_of(std::min(longest, p.up_to), page_tokens));
    }
    return most;
  }

  std::size_t state_bytes() const { return state_bytes_; }
  std::size_t packed_bytes() const { return packed_bytes_; }
  // What a task works in, of its thread: a block's scratch and its state; then, for a whole unit,
  // the states of a piece and of the unit, and the packed query.
  std::size_t task_bytes() const { return scratch_bytes_ + 3 * state_bytes_ + packed_bytes_; }

  void pack(std::int64_t unit, std::byte* packed) const {
    tile::AttentionQuery query;
    query.query = query_.at(row_of(unit), first_head(unit));
    query.head_stride = query_.head_stride * static_cast<std::int64_t>(sizeof(float));
    query.heads = heads_of(unit);
    query.packed = packed;
    kernel_.pack(query);
  }

  // The state of one piece. memory: task_bytes() bytes.
  void attend_piece(std::int64_t row, std::int64_t piece, const std::byte* packed, std::byte* state,
                    std::byte* memory) const {
    const VisibleTokens& visible = visible_[static_cast<std::size_t>(row)];
    const std::int64_t piece_pages = pages_of_piece(visible.length, cache_.page_tokens);
    const std::int64_t first_page = piece * piece_pages;
    const std::int64_t all_pages = (visible.length + cache_.page_tokens - 1) / cache_.page_tokens;
    const std::int64_t end_page = std::min(all_pages, first_page + piece_pages);
    const std::int64_t step = kernel_.plan().block_pages;
    constexpr std::int64_t kMostPages = 128;  // of a block of 256 tokens: pages hold 2 or more
    const std::byte* pages[kMostPages];
    assert(step <= kMostPages);
    for (std::int64_t page = first_page; page < end_page; page += step) {
      const std::int64_t n = std::min(step, end_page - page);
      for (std::int64_t i = 0; i < n; ++i) {
        pages[i] = cache_.page(visible.pages[static_cast<std::size_t>(page + i)]);
      }
      tile::AttentionBlock block;
      block.packed = packed;
      block.pages = pages;
      block.tokens = std::min(n * cache_.page_tokens, visible.length - page * cache_.page_tokens);
      block.next = page + n < all_pages
                       ? cache_.page(visible.pages[static_cast<std::size_t>(page + n)])
                       : pages[n - 1];
      block.scratch = memory;
      std::byte* block_state = memory + scratch_bytes_;
      block.state = page == first_page ? state : block_state;
      block.scale = scale_;
      kernel_.attend(block);
      if (page != first_page) kernel_.merge(state, block_state, 0, tile::kHeadGroup);
    }
  }

  // The outputs of heads [begin, end) of a unit, from the states of its pieces, which stand one
  // after another and of which the first is overwritten.
  void merge_and_finish(std::int64_t unit, std::byte* states, std::int64_t begin,
                        std::int64_t end) const {
    for (std::int64_t i = 1; i < pieces(row_of(unit)); ++i) {
      kernel_.merge(states, states + static_cast<std::size_t>(i) * state_bytes_, begin, end);
    }
    finish(unit, states, begin, end);
  }

  // A unit by itself. memory: task_bytes() bytes.
  void run_unit(std::int64_t unit, std::byte* memory) const {
    std::byte* piece_state = memory + scratch_bytes_ + state_bytes_;
    std::byte* unit_state = piece_state + state_bytes_;
    std::byte* packed = unit_state + state_bytes_;
    pack(unit, packed);
    const std::int64_t row = row_of(unit);
    for (std::int64_t piece = 0; piece < pieces(row); ++piece) {
      attend_piece(row, piece, packed, piece == 0 ? unit_state : piece_state, memory);
      if (piece > 0) kernel_.merge(unit_state, piece_state, 0, tile::kHeadGroup);
    }
    finish(unit, unit_state, 0, heads_of(unit));
  }

 private:
  // Long enough that a state (33 KB at V2's sizes, against 0.07 MB of rows for 64 tokens) matters
  // little, short enough that several threads find work.
  struct PieceLength {
    std::int64_t up_to;  // sequences of so many tokens
    std::int64_t tokens;
  };
  static constexpr PieceLength kPieceLengths[] = {{128, 64}, {1024, 128}, {8192, 256}};
  static constexpr std::int64_t kLongestPiece = 512;  // tokens

  static std::int64_t pages_of_piece(std::int64_t length, std::int64_t page_tokens) {
    std::int64_t tokens = kLongestPiece;
    for (const PieceLength& p : kPieceLengths) {
      if (length > p.up_to) continue;
      tokens = p.tokens;
      break;
    }
    return std::max<std::int64_t>(1, tokens / page_tokens);
  }
  static std::int64_t pieces_of(std::int64_t length, std::int64_t page_tokens) {
    const std::int64_t tokens = pages_of_piece(length, page_tokens) * page_tokens;
    return (length + tokens - 1) / tokens;
  }
  static std::size_t aligned(std::int64_t bytes) {
    return static_cast<std::size_t>((bytes + 63) / 64 * 64);
  }
  std::int64_t length(std::int64_t row) const {
    return visible_[static_cast<std::size_t>(row)].length;
  }

  void finish(std::int64_t unit, const std::byte* state, std::int64_t begin,
              std::int64_t end) const {
    kernel_.finish(state, out_.at(row_of(unit), first_head(unit)),
                   out_.head_stride * static_cast<std::int64_t>(sizeof(float)), begin, end);
  }

  const tile::Attention& kernel_;
  const ConstHeads query_;
  const LatentPages cache_;
  const std::span<const VisibleTokens> visible_;
  const float scale_;
  const Heads out_;
  const std::int64_t groups_;
  const std::size_t scratch_bytes_;
  const std::size_t state_bytes_;
  const std::size_t packed_bytes_;
};

}  // namespace tessera::ops
