// What the functions of generated attention are given: the interface between the library and
// src/tile/cpu/lower_attention.cpp.
//
// Two forms, which differ in what lies in the lanes:
//
//   latent    one query row, a group of heads (ops/mla_attention): all see the same tokens, whose
//             values are the first part of their key rows
//   expanded  one head, a group of query rows (ops/expanded_attention): each sees tokens up to a
//             limit of its own; values are rows of their own
//
// "pack" brings the group's queries into the form in which scores are computed. "attend" runs over
// a block of pages and leaves a state: each lane's largest score, and, relative to it, the sum of
// the weights and the weighted sum of the values. "merge" combines states, "finish" divides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::tile {

// Heads (or query rows) of a group; one with fewer is computed as if it had these.
inline constexpr int kHeadGroup = 16;

struct AttentionPlan {
  std::int64_t block_pages = 0;    // most pages of one call of attend
  std::int64_t packed_bytes = 0;   // of a group's packed queries
  std::int64_t scratch_bytes = 0;  // of attend
  std::int64_t state_bytes = 0;
  std::int64_t element_bytes = 0;  // of a key's and a value's numbers: bf16 (2) or fp32 (4)
};

// Members of the following are read by emitted code at these offsets: change the lowering with
// them. All memory is aligned to 64 bytes, except queries, pages and outputs.

struct AttentionQuery {
  const float* query = nullptr;  // the first head's, as long as a key
  std::int64_t head_stride = 0;  // from one lane to the next, in bytes
  std::int64_t heads = 0;        // 1 ... kHeadGroup
  std::byte* packed = nullptr;   // written
};

struct AttentionBlock {
  const std::byte* packed = nullptr;        // the group's queries
  const std::byte* const* pages = nullptr;  // addresses of the block's pages
  std::int64_t tokens =
      0;  // 1 or more; no row behind them is read. All pages but the last are full
  const std::byte* next = nullptr;  // rows that will be read next: only prefetched
  std::byte* scratch = nullptr;
  std::byte* state = nullptr;  // written
  float scale = 0;
  // Expanded form alone. limits: how many of the tokens each lane sees, of which `tokens` is the
  // largest; at most 0 for a lane that sees none, whose state then changes none that it is merged
  // into.
  const std::byte* const* value_pages = nullptr;
  const std::int32_t* limits = nullptr;  // [kHeadGroup]
};

// "plan".
using AttentionPlanFunction = void(AttentionPlan*);
// "pack".
using AttentionPackFunction = void(const AttentionQuery*);
// "attend".
using AttentionAttendFunction = void(const AttentionBlock*);
// "merge": heads [begin, end) of `into` become those of both; `other` holds later tokens.
using AttentionMergeFunction = void(std::byte* into, const std::byte* other, std::int64_t begin,
                                    std::int64_t end);
// "finish": writes the outputs (as long as a value) of heads [begin, end); head_stride in bytes,
// from head 0 of the group.
using AttentionFinishFunction = void(const std::byte* state, float* out, std::int64_t head_stride,
                                     std::int64_t begin, std::int64_t end);

}  // namespace tessera::tile
