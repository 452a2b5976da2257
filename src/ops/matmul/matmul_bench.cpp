// Matrix products at V2-Lite's sizes. GB/s counts weight bytes: with one row the product should run
// at the speed of memory, with many at that of the arithmetic.
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/convert.h"
#include "base/machine.h"
#include "ops/matmul/matmul.h"

namespace tessera::ops {
namespace {

// Enough copies of the weight that they come from memory, not from a cache.
constexpr std::size_t kWorkingSetBytes = std::size_t{256} << 20;

void matmul_rows(benchmark::State& state, DType dtype, std::int64_t n, std::int64_t k) {
  const std::int64_t m = state.range(0);
  Executor executor(available_cpus());
  std::mt19937 random(1);
  std::normal_distribution<float> normal;

  const std::size_t copies =
      kWorkingSetBytes / (static_cast<std::size_t>(n * k) * size_in_bytes(dtype)) + 1;
  std::vector<float> row(static_cast<std::size_t>(k));
  std::vector<Weight> weights;
  for (std::size_t c = 0; c < copies; ++c) {
    weights.emplace_back(dtype, n, k);
    for (float& value : row) value = normal(random) / 64;
    for (std::int64_t i = 0; i < n; ++i) {
      convert(row.data(), DType::kF32, weights.back().row(i), dtype, row.size());
    }
  }
  std::vector<float> x(static_cast<std::size_t>(m * k));
  std::vector<float> y(static_cast<std::size_t>(m * n));
  for (float& value : x) value = normal(random);

  std::size_t next = 0;
  for (auto _ : state) {
    matmul(ConstRows(x.data(), m, k), weights[next].view(), Rows(y.data(), m, n), executor);
    benchmark::DoNotOptimize(y.data());
    next = (next + 1) % copies;
  }
  const double runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(runs * static_cast<double>(weights[0].bytes()) / 1e9,
                                              benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(runs * 2e-9 * static_cast<double>(m * n * k), benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(matmul_rows, q_proj_bf16, DType::kBF16, 3072, 2048)
    ->Arg(1)
    ->Arg(8)
    ->Arg(64)
    ->Arg(512)
    ->UseRealTime();
BENCHMARK_CAPTURE(matmul_rows, q_proj_fp32, DType::kF32, 3072, 2048)
    ->Arg(1)
    ->Arg(8)
    ->Arg(64)
    ->Arg(512)
    ->UseRealTime();
BENCHMARK_CAPTURE(matmul_rows, expert_gate_up_bf16, DType::kBF16, 2816, 2048)
    ->Arg(1)
    ->Arg(48)
    ->UseRealTime();

}  // namespace
}  // namespace tessera::ops
