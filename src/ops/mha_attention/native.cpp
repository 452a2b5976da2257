// One task is one head of one query. It walks the pages once: the softmax keeps the largest score
// so far, and what was summed before a larger one came up is scaled down (Milakov & Gimelshein
// 2018), so that no array of all scores is needed. The order of all sums is that of the tokens.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "base/multiversion.h"
#include "ops/dot.h"
#include "ops/mha_attention/mha_attention.h"

namespace tessera::ops {

namespace {

struct Dims {
  std::int64_t nope, rope, v;
};

// The keys and values of one head in one page.
template <typename T>
struct Block {
  const T* keys;    // [n, nope]
  const T* shared;  // [n, rope]
  const T* values;  // [n, v]
  std::int64_t n;
};

template <typename T>
[[gnu::always_inline]] inline void score_block(const float* query, const Block<T>& block,
                                               const Dims& d, float scale, float* scores) {
  for (std::int64_t t = 0; t < block.n; ++t) {
    scores[t] = scale * (dot(query, block.keys + t * d.nope, d.nope) +
                         dot(query + d.nope, block.shared + t * d.rope, d.rope));
  }
}

// out = out * rescale + the weighted values.
template <typename T>
[[gnu::always_inline]] inline void add_block(const float* weights, const Block<T>& block,
                                             const Dims& d, float rescale, float* out) {
  for (std::int64_t i = 0; i < d.v; ++i) out[i] *= rescale;
  for (std::int64_t t = 0; t < block.n; ++t) {
    const float weight = weights[t];
    const T* row = block.values + t * d.v;
    for (std::int64_t i = 0; i < d.v; ++i) out[i] += weight * to_float(row[i]);
  }
}

TESSERA_MULTIVERSION void score(const float* query, const Block<float>& block, const Dims& d,
                                float scale, float* scores) {
  score_block(query, block, d, scale, scores);
}
TESSERA_MULTIVERSION void score(const float* query, const Block<bf16>& block, const Dims& d,
                                float scale, float* scores) {
  score_block(query, block, d, scale, scores);
}
TESSERA_MULTIVERSION void add(const float* weights, const Block<float>& block, const Dims& d,
                              float rescale, float* out) {
  add_block(weights, block, d, rescale, out);
}
TESSERA_MULTIVERSION void add(const float* weights, const Block<bf16>& block, const Dims& d,
                              float rescale, float* out) {
  add_block(weights, block, d, rescale, out);
}

// weights: room for those of a page.
template <typename T>
void attend(const float* query, const ExpandedPages& cache, const VisibleTokens& visible,
            std::int64_t head, float scale, float* out, float* weights) {
  const Dims dims{cache.nope_dim, cache.rope_dim, cache.v_dim};
  float largest = -std::numeric_limits<float>::infinity();
  float normaliser = 0;
  std::fill_n(out, dims.v, 0.0f);
  for (std::int64_t first = 0; first < visible.length; first += cache.page_tokens) {
    const std::int32_t page = visible.pages[static_cast<std::size_t>(first / cache.page_tokens)];
    const Block<T> block{reinterpret_cast<const T*>(cache.keys(page, head)),
                         reinterpret_cast<const T*>(cache.shared_keys(page)),
                         reinterpret_cast<const T*>(cache.values(page, head)),
                         std::min(cache.page_tokens, visible.length - first)};
    score(query, block, dims, scale, weights);
    const float before = largest;
    largest = std::max(largest, *std::max_element(weights, weights + block.n));
    const float rescale = std::exp(before - largest);  // 0 for the first page
    normaliser *= rescale;
    for (std::int64_t t = 0; t < block.n; ++t) {
      weights[t] = std::exp(weights[t] - largest);
      normaliser += weights[t];
    }
    add(weights, block, dims, rescale, out);
  }
  for (std::int64_t i = 0; i < dims.v; ++i) out[i] /= normaliser;
}

// Head task / rows of row task % rows. Heads outermost: queries of one sequence that follow one
// another read the same keys.
void run_task(std::int64_t task, const ConstHeads& query, const ExpandedPages& cache,
              const VisibleTokens* visible, float scale, const Heads& out, float* weights) {
  const std::int64_t head = task / query.rows;
  const std::int64_t row = task % query.rows;
  if (cache.dtype == DType::kBF16) {
    attend<bf16>(query.at(row, head), cache, visible[row], head, scale, out.at(row, head), weights);
  } else {
    attend<float>(query.at(row, head), cache, visible[row], head, scale, out.at(row, head),
                  weights);
  }
}

std::int64_t work_of(const ExpandedPages& cache, std::span<const VisibleTokens> visible) {
  std::int64_t tokens = 0;
  for (const VisibleTokens& v : visible) tokens += v.length;
  return tokens * cache.heads * (cache.nope_dim + cache.rope_dim + cache.v_dim);
}

struct RecordedBody {
  RecordedMhaAttention call;
  graph::Memory weights;  // per worker

  std::int64_t tasks(int) const noexcept { return *call.query.count.now * call.cache.heads; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const auto heads = [&](const Rows& rows, std::int64_t dim) {
      return Heads{rows.data, rows.rows, call.cache.heads, rows.stride, dim};
    };
    const Heads query = heads(call.query.at(worker), call.cache.nope_dim + call.cache.rope_dim);
    const Heads out = heads(call.out.at(worker), call.cache.v_dim);
    for (std::int64_t task = begin; task < end; ++task) {
      run_task(task, query, call.cache, call.visible, call.scale, out,
               reinterpret_cast<float*>(weights.copy(worker)));
    }
  }
  graph::Work work() const noexcept {
    const auto work = static_cast<double>(
        work_of(call.cache, {call.visible, static_cast<std::size_t>(*call.query.count.now)}));
    return {work * static_cast<double>(size_in_bytes(call.cache.dtype)), 2 * work};
  }
};

}  // namespace

void record_mha_attention(graph::Recorder& recorder, const RecordedMhaAttention& call) {
  graph::BufferInfo info;
  info.name = call.name + " weights";
  info.bytes = static_cast<std::size_t>(call.cache.page_tokens) * sizeof(float);
  info.per_worker = true;
  const graph::Memory weights = recorder.buffer(info);
  recorder.launch({.name = call.name,
                   .op = "attention",
                   .spread = graph::Spread::kShared,
                   .reads = {call.query.use(), {call.cache_buffer}},
                   .writes = {call.out.use(), {weights.buffer}}},
                  RecordedBody{call, weights});
}

void mha_attention(const ConstHeads& query, const ExpandedPages& cache,
                   std::span<const VisibleTokens> visible, float scale, const Heads& out,
                   Executor& executor) {
  assert(cache.dtype == DType::kF32 || cache.dtype == DType::kBF16);
  assert(query.heads == cache.heads);
  executor.parallel_for(query.rows * query.heads, work_of(cache, visible),
                        [&](std::int64_t task, Worker& worker) {
                          run_task(task, query, cache, visible.data(), scale, out,
                                   worker.scratch<float>(0, cache.page_tokens));
                        });
}

}  // namespace tessera::ops
