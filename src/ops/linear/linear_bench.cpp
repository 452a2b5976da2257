// Packed linear layers at V2-Lite's sizes, beside matmul() (oneDNN) on the same weights.
//
// Each iteration runs one after the other, so that load from elsewhere meets both, on weights that
// are no longer in any cache. Reported are medians: GB/s counts the bytes of the packed weight, and
// "onednn" is matmul()'s time divided by linear()'s.
#include <algorithm>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/convert.h"
#include "base/seconds_of.h"
#include "base/series.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"

namespace tessera::ops {
namespace {

// Enough copies of a weight that they come from memory, not from a cache.
constexpr std::size_t kWorkingSetBytes = std::size_t{192} << 20;

void linear_rows(benchmark::State& state, PanelLayout layout, DType dtype, std::int64_t n,
                 std::int64_t k) {
  const std::int64_t m = state.range(0);
  Executor executor(static_cast<int>(state.range(1)));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;

  const std::size_t size = static_cast<std::size_t>(n * k) * size_in_bytes(dtype);
  const std::size_t copies = kWorkingSetBytes / size + 1;
  std::vector<Weight> weights;
  std::vector<PackedLinear> layers;
  const std::size_t packed_size = PackedLinear::packed_bytes(layout, n, k, 1);
  Buffer packed(copies * packed_size);
  std::vector<float> row(static_cast<std::size_t>(k));
  for (std::size_t c = 0; c < copies; ++c) {
    weights.emplace_back(dtype, n, k);
    for (std::int64_t i = 0; i < n; ++i) {
      if (i % 16 == 0) {
        for (float& value : row) value = normal(random) / 64;
      }
      convert(row.data(), DType::kF32, weights.back().row(i), dtype, row.size());
    }
    layers.emplace_back(weights.back().view(), layout, executor, packed.data() + c * packed_size);
  }
  std::vector<float> x(static_cast<std::size_t>(m * k));
  std::vector<float> y(static_cast<std::size_t>(m * n));
  for (float& value : x) value = normal(random);
  const ConstRows input(x.data(), m, k);
  const Rows output(y.data(), m, n);

  Series ours;
  Series theirs;
  std::size_t next = 0;
  for (auto _ : state) {
    theirs.add(seconds_of([&] { matmul(input, weights[next].view(), output, executor); }));
    ours.add(seconds_of([&] { linear(input, layers[next], output, executor); }));
    state.SetIterationTime(ours.samples().back());
    next = (next + 1) % copies;
  }
  const double time = ours.median();
  state.counters["us"] = time * 1e6;
  state.counters["GB/s"] = static_cast<double>(layers[0].bytes()) / time / 1e9;
  state.counters["GFLOP/s"] = 2e-9 * static_cast<double>(m * n * k) / time;
  state.counters["onednn"] = theirs.median() / time;
}

void arguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "threads"})->UseManualTime()->Unit(benchmark::kMicrosecond);
  for (std::int64_t threads : {1, 2}) {
    for (std::int64_t rows : {1, 8, 64, 512}) benchmark->Args({rows, threads});
  }
}

BENCHMARK_CAPTURE(linear_rows, f32_q_proj, PanelLayout::kF32, DType::kF32, 3072, 2048)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, bf16_q_proj, PanelLayout::kBF16, DType::kBF16, 3072, 2048)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, bf16_kv_a, PanelLayout::kBF16, DType::kBF16, 576, 2048)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, bf16_expert_down, PanelLayout::kBF16, DType::kBF16, 2048, 1408)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, i8_q_proj, PanelLayout::kI8, DType::kBF16, 3072, 2048)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, i8g32_q_proj, PanelLayout::kI8G32, DType::kBF16, 3072, 2048)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, i6g32_q_proj, PanelLayout::kI6G32, DType::kBF16, 3072, 2048)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, i4g32_q_proj, PanelLayout::kI4G32, DType::kBF16, 3072, 2048)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, i4g32_kv_a, PanelLayout::kI4G32, DType::kBF16, 576, 2048)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, i4g32_kv_b, PanelLayout::kI4G32, DType::kBF16, 4096, 512)
    ->Apply(arguments);
BENCHMARK_CAPTURE(linear_rows, i4g32_expert_down, PanelLayout::kI4G32, DType::kBF16, 2048, 1408)
    ->Apply(arguments);

// Packing from bf16: GB/s of source.
void pack_weight(benchmark::State& state, PanelLayout layout) {
  Executor executor(static_cast<int>(state.range(0)));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Weight weight(DType::kBF16, 1408, 2048);
  for (std::int64_t i = 0; i < weight.n(); ++i) {
    std::vector<float> row(2048);
    for (float& value : row) value = normal(random);
    convert(row.data(), DType::kF32, weight.row(i), DType::kBF16, row.size());
  }
  for (auto _ : state) {
    const PackedLinear layer(weight.view(), layout, executor);
    benchmark::DoNotOptimize(layer.data());
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(weight.bytes()) / 1e9,
      benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(pack_weight, bf16, PanelLayout::kBF16)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(pack_weight, i8, PanelLayout::kI8)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(pack_weight, i8g32, PanelLayout::kI8G32)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(pack_weight, i6g32, PanelLayout::kI6G32)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(pack_weight, i4g32, PanelLayout::kI4G32)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace tessera::ops
