// Attention at V2-Lite's sizes, generated beside native.
//
// Each iteration runs one after the other, so that load from elsewhere meets both, on a cache that
// is no longer near (as in a model, whose other layers' weights and caches pass in between).
// Medians are reported, and the best time too, which load from elsewhere disturbs least: GFLOP/s
// counts 2 * heads * (576 + 512) for each visible token, GB/s the rows of the cache once for each
// query row, and "native" is native's best time divided by ours.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/convert.h"
#include "base/seconds_of.h"
#include "base/series.h"
#include "ops/mla_attention/mla_attention.h"

namespace tessera::ops {
namespace {

constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kLatent = 512;
constexpr std::int64_t kRope = 64;
constexpr std::int64_t kPageTokens = 64;
// Enough copies of a cache that its rows come from memory.
constexpr std::size_t kWorkingSetBytes = std::size_t{128} << 20;

// Sequences of `depth` tokens, each in pages of its own; row r of a call sees visible(r).
struct Setting {
  Setting(std::int64_t rows, std::int64_t sequences, std::int64_t depth, DType dtype)
      : query(static_cast<std::size_t>(rows * kHeads * (kLatent + kRope))),
        out(static_cast<std::size_t>(rows * kHeads * kLatent)),
        heads_in{query.data(), rows, kHeads, kHeads * (kLatent + kRope), kLatent + kRope},
        heads_out{out.data(), rows, kHeads, kHeads * kLatent, kLatent} {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : query) value = normal(random) / 8;
    const std::int64_t pages = (depth + kPageTokens - 1) / kPageTokens;
    const auto page_values = static_cast<std::size_t>(kPageTokens * (kLatent + kRope));
    const std::size_t page_bytes = page_values * size_in_bytes(dtype);
    copies = std::max<std::size_t>(
        1, kWorkingSetBytes / (page_bytes * static_cast<std::size_t>(pages * sequences)));
    const auto all = static_cast<std::size_t>(pages * sequences) * copies;
    memory = Buffer(all * page_bytes);
    std::vector<float> values(page_values);
    for (float& value : values) value = normal(random);
    for (std::size_t page = 0; page < all; ++page) {
      convert(values.data(), DType::kF32, memory.data() + page * page_bytes, dtype, page_values);
    }
    cache = {memory.data(), dtype, kPageTokens, kLatent, kRope};
    order.resize(all);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    pages_each = static_cast<std::size_t>(pages);
  }

  std::span<const std::int32_t> pages(std::size_t sequence) const {
    return std::span(order).subspan(sequence * pages_each, pages_each);
  }

  std::vector<float> query;
  std::vector<float> out;
  ConstHeads heads_in;
  Heads heads_out;
  Buffer memory;
  LatentPages cache;
  std::vector<std::int32_t> order;
  std::size_t pages_each = 0;
  std::size_t copies = 1;
};

void measure(benchmark::State& state, const Setting& setting, std::int64_t sequences,
             const std::vector<std::int64_t>& lengths, int threads) {
  Executor executor(threads);
  Series ours;
  Series natives;
  std::size_t copy = 0;
  for (auto _ : state) {
    std::vector<VisibleTokens> visible;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      const std::size_t sequence = r % static_cast<std::size_t>(sequences);
      visible.push_back(
          {setting.pages(copy * static_cast<std::size_t>(sequences) + sequence), lengths[r]});
    }
    ours.add(seconds_of([&] {
      mla_attention(setting.heads_in, setting.cache, visible, 0.1147f, setting.heads_out, executor);
    }));
    state.SetIterationTime(ours.samples().back());
    copy = (copy + 1) % setting.copies;
    // Native takes long: seldom is often enough.
    if (ours.samples().size() % 8 == 1) {
      natives.add(seconds_of([&] {
        mla_attention_native(setting.heads_in, setting.cache, visible, 0.1147f, setting.heads_out,
                             executor);
      }));
    }
  }
  const double time = ours.median();
  const double best = ours.min();
  const auto tokens =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  const double flops = 2e-9 * tokens * kHeads * (2 * kLatent + kRope);
  state.counters["us"] = time * 1e6;
  state.counters["GFLOP/s"] = flops / time;
  state.counters["best_GFLOP/s"] = flops / best;
  state.counters["GB/s"] = 1e-9 * tokens * (kLatent + kRope) *
                           static_cast<double>(size_in_bytes(setting.cache.dtype)) / time;
  state.counters["native"] = natives.min() / best;
}

// One new token of each of `rows` sequences.
void decode(benchmark::State& state, DType dtype) {
  const std::int64_t depth = state.range(0);
  const std::int64_t rows = state.range(1);
  const Setting setting(rows, rows, depth, dtype);
  measure(state, setting, rows, std::vector<std::int64_t>(static_cast<std::size_t>(rows), depth),
          static_cast<int>(state.range(2)));
}

// `rows` new tokens of one sequence behind `depth` others.
void prefill(benchmark::State& state, DType dtype) {
  const std::int64_t depth = state.range(0);
  const std::int64_t rows = state.range(1);
  const Setting setting(rows, 1, depth + rows, dtype);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(rows));
  std::iota(lengths.begin(), lengths.end(), depth + 1);
  measure(state, setting, 1, lengths, static_cast<int>(state.range(2)));
}

void decode_arguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"depth", "rows", "threads"})->UseManualTime()->Unit(benchmark::kMicrosecond);
  for (std::int64_t threads : {1, 2}) {
    for (std::int64_t rows : {1, 8}) {
      for (std::int64_t depth : {128, 512, 1024, 4096, 8192}) {
        benchmark->Args({depth, rows, threads});
      }
    }
  }
}

BENCHMARK_CAPTURE(decode, bf16, DType::kBF16)->Apply(decode_arguments);
BENCHMARK_CAPTURE(decode, f32, DType::kF32)
    ->ArgNames({"depth", "rows", "threads"})
    ->Args({1024, 1, 2})
    ->Args({4096, 1, 2})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(prefill, bf16, DType::kBF16)
    ->ArgNames({"depth", "rows", "threads"})
    ->Args({0, 512, 1})
    ->Args({0, 512, 2})
    ->Args({4096, 512, 2})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera::ops
