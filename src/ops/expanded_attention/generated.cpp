// Expanded attention by generated code. Block after block of the visible tokens:
//
//   gather   latents as the products read them, k_pe into the keys of every head
//   expand   a task is the keys or the values of one head
//   attend   a task is one head and a group of query rows, which lie in the lanes
//
// Threads share the tasks of each step; which thread runs one changes no bit.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

#include "base/convert.h"
#include "ops/expanded_attention/expanded_attention.h"
#include "tile/attention/attention.h"
#include "tile/product/product.h"

namespace tessera::ops {

namespace {

using tile::kHeadGroup;

constexpr std::int64_t kBlock = kExpandedBlockTokens;
constexpr std::int64_t kFloat = sizeof(float);

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t aligned(std::int64_t bytes) {
  return ceil_div(bytes, 64) * 64;
}

class Call {
 public:
  Call(const ConstHeads& query, const LatentPages& cache, const VisibleTokens& visible,
       const Expansion& w, float scale, const Heads& out, Executor& executor)
      : query_(query),
        cache_(cache),
        visible_(visible),
        w_(w),
        scale_(scale),
        out_(out),
        executor_(executor),
        nope_(w.latent_to_key.front().n()),
        key_dim_(nope_ + cache.rope_dim),
        value_dim_(w.latent_to_value.front().n()),
        groups_(ceil_div(query.rows, kHeadGroup)),
        kernel_(tile::shared_attention(
            tile::ExpandedAttentionShape{cache.dtype, key_dim_, value_dim_, kBlock})),
        product_(tile::shared_product(w.latent_to_key.front().layout())),
        dtype_(kernel_.plan().element_bytes == 2 ? DType::kBF16 : DType::kF32),
        packed_bytes_(aligned(kernel_.plan().packed_bytes)),
        state_bytes_(aligned(kernel_.plan().state_bytes)),
        scratch_bytes_(aligned(kernel_.plan().scratch_bytes)) {
    assert(std::ssize(w.latent_to_key) == query.heads);
    assert(std::ssize(w.latent_to_value) == query.heads);
    const std::int64_t most = std::min(kBlock, visible.length);
    key_bytes_ = aligned(most * key_dim_ * kernel_.plan().element_bytes);
    value_bytes_ = aligned(most * value_dim_ * kernel_.plan().element_bytes);
    const std::int64_t latent_bytes = aligned(most * cache.latent_dim * kFloat);
    const std::int64_t prepared_bytes =
        aligned(most * product_.plan().prepared_row_bytes(cache.latent_dim));
    std::byte* memory = executor.worker(0).scratch<std::byte>(
        Worker::kAttentionCallSlot,
        latent_bytes + prepared_bytes +
            query.heads * (key_bytes_ + value_bytes_ + groups_ * (packed_bytes_ + state_bytes_)));
    const auto take = [&](std::int64_t bytes) { return std::exchange(memory, memory + bytes); };
    latents_ = reinterpret_cast<float*>(take(latent_bytes));
    prepared_ = take(prepared_bytes);
    keys_ = take(query.heads * key_bytes_);
    values_ = take(query.heads * value_bytes_);
    units_ = take(query.heads * groups_ * (packed_bytes_ + state_bytes_));
  }

  void run() {
    for (std::int64_t first = 0; first < visible_.length; first += kBlock) {
      const std::int64_t tokens = std::min(kBlock, visible_.length - first);
      {
        const StepScope scope(executor_.profile(), StepPart::kAbsorb);
        gather(first, tokens);
        expand(tokens);
      }
      attend(first);
    }
  }

 private:
  std::byte* key(std::int64_t token, std::int64_t head) const {
    return keys_ + head * key_bytes_ + token * key_dim_ * kernel_.plan().element_bytes;
  }
  std::byte* value(std::int64_t token, std::int64_t head) const {
    return values_ + head * value_bytes_ + token * value_dim_ * kernel_.plan().element_bytes;
  }
  // Tokens that a row sees.
  std::int64_t length(std::int64_t row) const { return visible_.length - query_.rows + row + 1; }

  tile::ProductArguments product_call(std::int64_t tokens) const {
    tile::ProductArguments call;
    call.x = latents_;
    call.x_stride = cache_.latent_dim * kFloat;
    call.prepared = prepared_;
    call.rows = tokens;
    call.k = cache_.latent_dim;
    return call;
  }

  void gather(std::int64_t first, std::int64_t tokens) {
    const tile::ProductArguments call = product_call(tokens);
    const std::int64_t blocks = product_.plan().blocks(tokens);
    const auto latent = static_cast<std::size_t>(cache_.latent_dim);
    executor_.parallel_for(blocks, tokens * cache_.latent_dim * 8, [&](std::int64_t b, Worker&) {
      const std::int64_t end = product_.plan().first_row(tokens, b + 1);
      for (std::int64_t t = product_.plan().first_row(tokens, b); t < end; ++t) {
        const std::byte* row = cache_.row(visible_, first + t);
        convert(row, cache_.dtype, latents_ + t * cache_.latent_dim, DType::kF32, latent);
        const std::byte* k_pe = row + latent * size_in_bytes(cache_.dtype);
        for (std::int64_t h = 0; h < query_.heads; ++h) {
          convert(k_pe, cache_.dtype, key(t, h) + nope_ * kernel_.plan().element_bytes, dtype_,
                  static_cast<std::size_t>(cache_.rope_dim));
        }
      }
      product_.prepare(call, b, b + 1);
    });
  }

  void expand(std::int64_t tokens) {
    const std::int64_t work = tokens * query_.heads * (nope_ + value_dim_) * cache_.latent_dim;
    executor_.parallel_for(2 * query_.heads, work, [&](std::int64_t task, Worker& worker) {
      const std::int64_t head = task / 2;
      const auto h = static_cast<std::size_t>(head);
      if (task % 2 == 0) {
        expand(tokens, w_.latent_to_key[h], key(0, head), key_dim_, worker);
      } else {
        expand(tokens, w_.latent_to_value[h], value(0, head), value_dim_, worker);
      }
    });
  }

  // Rows [tokens, w.n()] of numbers that stand `stride` apart.
  void expand(std::int64_t tokens, const PackedLinear& w, std::byte* to, std::int64_t stride,
              Worker& worker) const {
    tile::ProductArguments call = product_call(tokens);
    call.n = w.n();
    call.weight = w.data();
    const bool narrow = dtype_ == DType::kBF16;
    call.out_stride = (narrow ? w.n() : stride) * kFloat;
    call.out = narrow ? worker.scratch<float>(Worker::kAttentionSlot, tokens * w.n())
                      : reinterpret_cast<float*>(to);
    product_.multiply(call, 0, w.strips(), 0, product_.plan().blocks(tokens));
    if (!narrow) return;
    const auto n = static_cast<std::size_t>(w.n());
    for (std::int64_t t = 0; t < tokens; ++t) {
      auto* row = reinterpret_cast<bf16*>(to) + t * stride;
      convert(std::span<const float>(call.out + t * w.n(), n), std::span(row, n));
    }
  }

  // The block from token `first` on.
  void attend(std::int64_t first) {
    // Groups before see none of it.
    const std::int64_t unseeing = std::max<std::int64_t>(0, first - length(0) + 1);
    const std::int64_t first_group = unseeing / kHeadGroup;
    const std::int64_t groups = groups_ - first_group;
    const std::int64_t tokens = std::min(kBlock, visible_.length - first);
    const std::int64_t work = groups * kHeadGroup * query_.heads * tokens * (key_dim_ + value_dim_);
    // Head by head, so that a thread meets few of them.
    executor_.parallel_for(groups * query_.heads, work, [&](std::int64_t task, Worker& worker) {
      attend(first, task / groups, first_group + task % groups, worker);
    });
  }

  void attend(std::int64_t first, std::int64_t head, std::int64_t group, Worker& worker) const {
    const std::int64_t row = group * kHeadGroup;
    const std::int64_t rows = std::min<std::int64_t>(kHeadGroup, query_.rows - row);
    std::byte* packed = units_ + (head * groups_ + group) * (packed_bytes_ + state_bytes_);
    std::byte* state = packed + packed_bytes_;
    if (first == 0) {
      tile::AttentionQuery query;
      query.query = query_.at(row, head);
      query.head_stride = query_.row_stride * kFloat;
      query.heads = rows;
      query.packed = packed;
      kernel_.pack(query);
    }
    alignas(64) std::int32_t limits[kHeadGroup] = {};
    for (std::int64_t i = 0; i < rows; ++i) {
      limits[i] =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(length(row + i) - first, 0, kBlock));
    }
    const std::byte* key_page = key(0, head);
    const std::byte* value_page = value(0, head);
    auto* memory = worker.scratch<std::byte>(Worker::kAttentionSlot, scratch_bytes_ + state_bytes_);
    std::byte* block_state = first == 0 ? state : memory + scratch_bytes_;
    tile::AttentionBlock block;
    block.packed = packed;
    block.pages = &key_page;
    block.value_pages = &value_page;
    block.tokens = limits[rows - 1];
    block.limits = limits;
    block.next = key_page;
    block.scratch = memory;
    block.state = block_state;
    block.scale = scale_;
    kernel_.attend(block);
    if (first > 0) kernel_.merge(state, block_state, 0, kHeadGroup);
    if (first + kBlock < length(row + rows - 1)) return;
    kernel_.finish(state, out_.at(row, head), out_.row_stride * kFloat, 0, rows);
  }

  const ConstHeads query_;
  const LatentPages cache_;
  const VisibleTokens visible_;
  const Expansion w_;
  const float scale_;
  const Heads out_;
  Executor& executor_;
  const std::int64_t nope_;
  const std::int64_t key_dim_;
  const std::int64_t value_dim_;
  const std::int64_t groups_;  // of query rows
  const tile::Attention& kernel_;
  const tile::Product& product_;
  const DType dtype_;  // of keys and values
  const std::int64_t packed_bytes_;
  const std::int64_t state_bytes_;
  const std::int64_t scratch_bytes_;
  std::int64_t key_bytes_ = 0;  // of one head
  std::int64_t value_bytes_ = 0;
  float* latents_ = nullptr;       // [tokens, latent] of a block
  std::byte* prepared_ = nullptr;  // the same as the products read them
  std::byte* keys_ = nullptr;      // [heads][tokens, key]
  std::byte* values_ = nullptr;    // [heads][tokens, value]
  std::byte* units_ = nullptr;     // [heads, groups]: packed queries, then the state
};

}  // namespace

void expanded_attention(const ConstHeads& query, const LatentPages& cache,
                        const VisibleTokens& visible, const Expansion& w, float scale,
                        const Heads& out, Executor& executor) {
  assert(1 <= query.rows && query.rows <= visible.length);
  Call(query, cache, visible, w, scale, out, executor).run();
}

}  // namespace tessera::ops
