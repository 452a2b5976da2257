// Attention by generated code: how threads share the tasks of a call.
#include <cassert>
#include <vector>

#include "ops/mla_attention/generated_call.h"
#include "ops/mla_attention/mla_attention.h"

namespace tessera::ops {

namespace {

using tile::kHeadGroup;

// From this many units for each thread on, threads share whole units: states of pieces then stay in
// the second-level cache. With fewer, threads would wait for the last unit, so they share pieces.
constexpr std::int64_t kUnitsPerThread = 8;

std::byte* task_memory(const GeneratedCall& call, Worker& worker) {
  return worker.scratch<std::byte>(Worker::kAttentionSlot,
                                   static_cast<std::int64_t>(call.task_bytes()));
}

void share_units(const GeneratedCall& call, Executor& executor) {
  executor.parallel_for(call.units(), call.work(), [&](std::int64_t unit, Worker& worker) {
    call.run_unit(unit, task_memory(call, worker));
  });
}

void share_pieces(const GeneratedCall& call, std::int64_t row_values, std::int64_t latent_dim,
                  Executor& executor) {
  struct Piece {
    std::int64_t unit;
    std::int64_t index;
  };
  std::vector<Piece> list;
  std::vector<std::size_t> first;  // of each unit
  for (std::int64_t unit = 0; unit < call.units(); ++unit) {
    first.push_back(list.size());
    const std::int64_t pieces = call.pieces(call.row_of(unit));
    for (std::int64_t i = 0; i < pieces; ++i) list.push_back({unit, i});
  }
  const std::size_t all_packed = static_cast<std::size_t>(call.units()) * call.packed_bytes();
  auto* bytes = executor.worker(0).scratch<std::byte>(
      Worker::kAttentionCallSlot,
      static_cast<std::int64_t>(all_packed + list.size() * call.state_bytes()));
  const auto packed = [&](std::int64_t unit) {
    return bytes + static_cast<std::size_t>(unit) * call.packed_bytes();
  };
  const auto state = [&](std::size_t piece) {
    return bytes + all_packed + piece * call.state_bytes();
  };

  executor.parallel_for(call.units(), call.units() * kHeadGroup * row_values * 4,
                        [&](std::int64_t unit, Worker&) { call.pack(unit, packed(unit)); });
  executor.parallel_for(std::ssize(list), call.work(), [&](std::int64_t task, Worker& worker) {
    const auto index = static_cast<std::size_t>(task);
    const Piece& piece = list[index];
    call.attend_piece(call.row_of(piece.unit), piece.index, packed(piece.unit), state(index),
                      task_memory(call, worker));
  });
  // Four heads at a time: their outputs stay in the first-level cache.
  constexpr std::int64_t kHeads = 4;
  constexpr std::int64_t kParts = kHeadGroup / kHeads;
  const std::int64_t merged = std::ssize(list) * kHeadGroup * latent_dim * 4;
  executor.parallel_for(call.units() * kParts, merged, [&](std::int64_t task, Worker&) {
    const std::int64_t unit = task / kParts;
    const std::int64_t begin = task % kParts * kHeads;
    const std::int64_t end = std::min(begin + kHeads, call.heads_of(unit));
    call.merge_and_finish(unit, state(first[static_cast<std::size_t>(unit)]), begin, end);
  });
}

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
  if (query.rows == 0) return;
  const GeneratedCall call(GeneratedCall::kernel_for(cache), query, cache, visible, scale, out);
  if (call.units() < kUnitsPerThread * executor.n_threads()) {
    share_pieces(call, cache.row_values(), cache.latent_dim, executor);
  } else {
    share_units(call, executor);
  }
}

}  // namespace tessera::ops
