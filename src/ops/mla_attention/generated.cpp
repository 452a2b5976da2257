// Attention by generated code: what is cut into which tasks.
//
// A unit is one row and one group of heads. Its tokens are cut into pieces, and each piece into
// blocks, by its length alone; states are merged in order. Who computes a piece is then free.
#include <algorithm>
#include <cassert>
#include <vector>

#include "ops/mla_attention/mla_attention.h"
#include "tile/attention/attention.h"

namespace tessera::ops {

namespace {

using tile::kHeadGroup;

// From this many units for each thread on, threads share whole units: states of pieces then stay in
// the second-level cache. With fewer, threads would wait for the last unit, so they share pieces.
constexpr std::int64_t kUnitsPerThread = 8;

// Long enough that a state (33 KB at V2's sizes, against 0.07 MB of rows for 64 tokens) matters
// little, short enough that several threads find work.
std::int64_t piece_tokens(std::int64_t length) {
  if (length <= 128) return 64;
  if (length <= 1024) return 128;
  return length <= 8192 ? 256 : 512;
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

class Call {
 public:
  Call(const ConstHeads& query, const LatentPages& cache, std::span<const VisibleTokens> visible,
       float scale, const Heads& out)
      : kernel_(tile::shared_attention(
            {cache.dtype, cache.latent_dim, cache.rope_dim, cache.page_tokens})),
        query_(query),
        cache_(cache),
        visible_(visible),
        scale_(scale),
        out_(out),
        groups_((query.heads + kHeadGroup - 1) / kHeadGroup) {
    const tile::AttentionPlan& plan = kernel_.plan();
    scratch_bytes_ = aligned(static_cast<std::size_t>(plan.scratch_bytes));
    state_bytes_ = aligned(static_cast<std::size_t>(plan.state_bytes));
    packed_bytes_ = aligned(static_cast<std::size_t>(plan.packed_bytes));
    for (std::int64_t row = 0; row < query.rows; ++row) {
      work_ += length(row) * groups_ * kHeadGroup * (cache.row_values() + cache.latent_dim);
    }
  }

  void run(Executor& executor) const {
    const std::int64_t units = query_.rows * groups_;
    if (units < kUnitsPerThread * executor.n_threads()) {
      share_pieces(executor);
    } else {
      executor.parallel_for(units, work_,
                            [&](std::int64_t unit, Worker& worker) { run_unit(unit, worker); });
    }
  }

 private:
  std::int64_t row_of(std::int64_t unit) const { return unit / groups_; }
  std::int64_t first_head(std::int64_t unit) const { return unit % groups_ * kHeadGroup; }
  std::int64_t heads_of(std::int64_t unit) const {
    return std::min<std::int64_t>(kHeadGroup, query_.heads - first_head(unit));
  }
  std::int64_t length(std::int64_t row) const {
    return visible_[static_cast<std::size_t>(row)].length;
  }

  // Pages of a piece, and pieces of a row.
  std::int64_t piece_pages(std::int64_t row) const {
    return std::max<std::int64_t>(1, piece_tokens(length(row)) / cache_.page_tokens);
  }
  std::int64_t pieces(std::int64_t row) const {
    const std::int64_t tokens = piece_pages(row) * cache_.page_tokens;
    return (length(row) + tokens - 1) / tokens;
  }

  // What a task works in, of its thread: a block's scratch and its state; then, for a whole unit,
  // the states of a piece and of the unit, and the packed query.
  struct Memory {
    std::byte* scratch;
    std::byte* block_state;
    std::byte* piece_state;
    std::byte* unit_state;
    std::byte* packed;
  };
  Memory memory(Worker& worker) const {
    auto* bytes = worker.scratch<std::byte>(
        Worker::kAttentionSlot,
        static_cast<std::int64_t>(scratch_bytes_ + 3 * state_bytes_ + packed_bytes_));
    std::byte* states = bytes + scratch_bytes_;
    return {bytes, states, states + state_bytes_, states + 2 * state_bytes_,
            states + 3 * state_bytes_};
  }

  void pack(std::int64_t unit, std::byte* packed) const {
    tile::AttentionQuery query;
    query.query = query_.at(row_of(unit), first_head(unit));
    query.head_stride = query_.head_stride * static_cast<std::int64_t>(sizeof(float));
    query.heads = heads_of(unit);
    query.packed = packed;
    kernel_.pack(query);
  }

  void attend_piece(std::int64_t row, std::int64_t piece, const std::byte* packed, std::byte* state,
                    const Memory& memory) const {
    const VisibleTokens& visible = visible_[static_cast<std::size_t>(row)];
    const std::int64_t first_page = piece * piece_pages(row);
    const std::int64_t all_pages = (visible.length + cache_.page_tokens - 1) / cache_.page_tokens;
    const std::int64_t end_page = std::min(all_pages, first_page + piece_pages(row));
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
      block.scratch = memory.scratch;
      block.state = page == first_page ? state : memory.block_state;
      block.scale = scale_;
      kernel_.attend(block);
      if (page != first_page) kernel_.merge(state, memory.block_state, 0, kHeadGroup);
    }
  }

  void finish(std::int64_t unit, const std::byte* state, std::int64_t begin,
              std::int64_t end) const {
    kernel_.finish(state, out_.at(row_of(unit), first_head(unit)),
                   out_.head_stride * static_cast<std::int64_t>(sizeof(float)), begin, end);
  }

  void run_unit(std::int64_t unit, Worker& worker) const {
    const Memory own = memory(worker);
    pack(unit, own.packed);
    const std::int64_t row = row_of(unit);
    for (std::int64_t piece = 0; piece < pieces(row); ++piece) {
      std::byte* state = piece == 0 ? own.unit_state : own.piece_state;
      attend_piece(row, piece, own.packed, state, own);
      if (piece > 0) kernel_.merge(own.unit_state, own.piece_state, 0, kHeadGroup);
    }
    finish(unit, own.unit_state, 0, heads_of(unit));
  }

  void share_pieces(Executor& executor) const {
    struct Piece {
      std::int64_t unit;
      std::int64_t index;
    };
    const std::int64_t units = query_.rows * groups_;
    std::vector<Piece> list;
    std::vector<std::size_t> first;  // of each unit
    for (std::int64_t unit = 0; unit < units; ++unit) {
      first.push_back(list.size());
      for (std::int64_t i = 0; i < pieces(row_of(unit)); ++i) list.push_back({unit, i});
    }
    const std::size_t all_packed = static_cast<std::size_t>(units) * packed_bytes_;
    auto* bytes = executor.worker(0).scratch<std::byte>(
        Worker::kAttentionCallSlot,
        static_cast<std::int64_t>(all_packed + list.size() * state_bytes_));
    const auto packed = [&](std::int64_t unit) {
      return bytes + static_cast<std::size_t>(unit) * packed_bytes_;
    };
    const auto state = [&](std::size_t piece) { return bytes + all_packed + piece * state_bytes_; };

    executor.parallel_for(units, units * kHeadGroup * cache_.row_values() * 4,
                          [&](std::int64_t unit, Worker&) { pack(unit, packed(unit)); });
    executor.parallel_for(std::ssize(list), work_, [&](std::int64_t task, Worker& worker) {
      const auto index = static_cast<std::size_t>(task);
      const Piece& piece = list[index];
      attend_piece(row_of(piece.unit), piece.index, packed(piece.unit), state(index),
                   memory(worker));
    });
    // Four heads at a time: their outputs stay in the first-level cache.
    constexpr std::int64_t kHeads = 4;
    constexpr std::int64_t kParts = kHeadGroup / kHeads;
    const std::int64_t merged = std::ssize(list) * kHeadGroup * cache_.latent_dim * 4;
    executor.parallel_for(units * kParts, merged, [&](std::int64_t task, Worker&) {
      const std::int64_t unit = task / kParts;
      const std::int64_t begin = task % kParts * kHeads;
      const std::int64_t end = std::min(begin + kHeads, heads_of(unit));
      const std::size_t piece = first[static_cast<std::size_t>(unit)];
      for (std::int64_t i = 1; i < pieces(row_of(unit)); ++i) {
        kernel_.merge(state(piece), state(piece + static_cast<std::size_t>(i)), begin, end);
      }
      finish(unit, state(piece), begin, end);
    });
  }

  const tile::Attention& kernel_;
  const ConstHeads& query_;
  const LatentPages& cache_;
  std::span<const VisibleTokens> visible_;
  float scale_;
  const Heads& out_;
  std::int64_t groups_;
  std::size_t scratch_bytes_ = 0;
  std::size_t state_bytes_ = 0;
  std::size_t packed_bytes_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace

std::string_view why_not_generated(const LatentPages& cache) {
  if (cache.page_tokens % 2 != 0) return "its pages hold an odd number of tokens";
  return "";
}

void mla_attention(const ConstHeads& query, const LatentPages& cache,
                   std::span<const VisibleTokens> visible, float scale, const Heads& out,
                   Executor& executor) {
  assert(cache.dtype == DType::kF32 || cache.dtype == DType::kBF16);
  if (!why_not_generated(cache).empty()) {
    return mla_attention_native(query, cache, visible, scale, out, executor);
  }
  if (query.rows > 0) Call(query, cache, visible, scale, out).run(executor);
}

}  // namespace tessera::ops
