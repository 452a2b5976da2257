// The two forms of attention over a latent cache at V2-Lite's sizes: new tokens of one sequence
// behind `depth` others, with the products that each form needs.
//
// Each iteration runs one after the other, so that load from elsewhere meets both. Medians are
// reported: ms of the expanded form, "absorbed", the time of the absorbed one divided by it (what
// the choice in model/attention_form.h rests on), and the GFLOP/s of what the expanded form
// computes.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/convert.h"
#include "base/seconds_of.h"
#include "base/series.h"
#include "ops/expanded_attention/expanded_attention.h"

namespace tessera::ops {
namespace {

constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kLatent = 512;
constexpr std::int64_t kNope = 128;
constexpr std::int64_t kRope = 64;
constexpr std::int64_t kValue = 128;
constexpr std::int64_t kPageTokens = 64;
constexpr float kScale = 0.1147f;

struct Setting {
  Setting(std::int64_t depth, std::int64_t n_rows, PanelLayout layout, int threads)
      : executor(threads), rows(n_rows), length(depth + n_rows) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    query.resize(static_cast<std::size_t>(rows * kHeads * (kNope + kRope)));
    for (float& value : query) value = normal(random) / 8;
    absorbed.resize(static_cast<std::size_t>(rows * kHeads * (kLatent + kRope)));
    attended.resize(static_cast<std::size_t>(rows * kHeads * kLatent));
    out.resize(static_cast<std::size_t>(rows * kHeads * kValue));
    pages.resize(static_cast<std::size_t>((length + kPageTokens - 1) / kPageTokens));
    std::iota(pages.begin(), pages.end(), 0);
    std::ranges::shuffle(pages, random);
    const std::size_t page_values = kPageTokens * (kLatent + kRope);
    memory = Buffer(pages.size() * page_values * sizeof(bf16));
    std::vector<float> values(page_values);
    for (float& value : values) value = normal(random);
    for (std::size_t page = 0; page < pages.size(); ++page) {
      convert(values.data(), DType::kF32, memory.data() + page * page_values * sizeof(bf16),
              DType::kBF16, page_values);
    }
    cache = {memory.data(), DType::kBF16, kPageTokens, kLatent, kRope};
    std::vector<float> weight(kLatent * kNope);
    for (float& value : weight) value = normal(random) / 22;
    const auto* data = reinterpret_cast<const std::byte*>(weight.data());
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const WeightView key{data, DType::kF32, kNope, kLatent, kLatent, 1};
      into_latent.emplace_back(key.transposed(), layout, executor);
      to_key.emplace_back(key, layout, executor);
      to_value.emplace_back(WeightView{data, DType::kF32, kValue, kLatent, kLatent, 1}, layout,
                            executor);
    }
    for (std::int64_t r = 0; r < rows; ++r) visible.push_back({pages, depth + r + 1});
  }

  void run_absorbed() {
    const Heads q{query.data(), rows, kHeads, kHeads * (kNope + kRope), kNope + kRope};
    const Heads in{absorbed.data(), rows, kHeads, kHeads * (kLatent + kRope), kLatent + kRope};
    const Heads latents{attended.data(), rows, kHeads, kHeads * kLatent, kLatent};
    const Heads values{out.data(), rows, kHeads, kHeads * kValue, kValue};
    std::vector<LinearJob> before(kHeads);
    std::vector<LinearJob> after(kHeads);
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const auto i = static_cast<std::size_t>(h);
      before[i].x = q.head(h, kNope);
      before[i].w = &into_latent[i];
      before[i].y = in.head(h, kLatent);
      after[i].x = latents.head(h, kLatent);
      after[i].w = &to_value[i];
      after[i].y = values.head(h, kValue);
      for (std::int64_t r = 0; r < rows; ++r) {
        std::copy_n(q.at(r, h) + kNope, kRope, in.at(r, h) + kLatent);
      }
    }
    linear(before, executor);
    mla_attention(in, cache, visible, kScale, latents, executor);
    linear(after, executor);
  }

  void run_expanded() {
    expanded_attention({query.data(), rows, kHeads, kHeads * (kNope + kRope), kNope + kRope}, cache,
                       {pages, length}, {to_key, to_value}, kScale,
                       {out.data(), rows, kHeads, kHeads * kValue, kValue}, executor);
  }

  Executor executor;
  std::int64_t rows, length;
  std::vector<float> query, absorbed, attended, out;
  std::vector<std::int32_t> pages;
  Buffer memory;
  LatentPages cache;
  std::vector<PackedLinear> into_latent, to_key, to_value;
  std::vector<VisibleTokens> visible;
};

void forms(benchmark::State& state, PanelLayout layout) {
  const std::int64_t depth = state.range(0);
  Setting setting(depth, state.range(1), layout, static_cast<int>(state.range(2)));
  Series expanded;
  Series absorbed;
  setting.run_absorbed();
  setting.run_expanded();
  for (auto _ : state) {
    expanded.add(seconds_of([&] { setting.run_expanded(); }));
    absorbed.add(seconds_of([&] { setting.run_absorbed(); }));
    state.SetIterationTime(expanded.samples().back());
  }
  const auto rows = static_cast<double>(setting.rows);
  const double pairs = rows * static_cast<double>(depth) + rows * (rows + 1) / 2;
  const double products = pairs * (kNope + kRope + kValue) +
                          static_cast<double>(setting.length) * kLatent * (kNope + kValue);
  state.counters["ms"] = expanded.median() * 1e3;
  state.counters["absorbed"] = absorbed.median() / expanded.median();
  state.counters["GFLOP/s"] = 2e-9 * kHeads * products / expanded.median();
}

void arguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"depth", "rows", "threads"})->UseManualTime()->Unit(benchmark::kMillisecond);
  for (std::int64_t depth : {0, 512, 2048, 8192}) {
    for (std::int64_t rows : {64, 128, 192, 256, 512}) benchmark->Args({depth, rows, 2});
  }
}

BENCHMARK_CAPTURE(forms, int8, PanelLayout::kI8G32)->Apply(arguments);
BENCHMARK_CAPTURE(forms, bf16, PanelLayout::kBF16)->Apply(arguments);

}  // namespace
}  // namespace tessera::ops
