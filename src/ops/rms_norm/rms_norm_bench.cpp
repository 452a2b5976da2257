// RMSNorm by implementation, row count and width: 2048 is V2-Lite's hidden size, 512 its latent.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/machine.h"
#include "ops/registry.h"
#include "ops/verify/draw.h"

namespace tessera::ops {
namespace {

void rms_norm_rows(benchmark::State& state, const RmsNormImplementation& implementation) {
  const std::int64_t rows = state.range(0);
  const std::int64_t n = state.range(1);
  Executor executor(available_cpus());
  const auto x = verify::Stream(1, "x").normal(rows * n, 1);
  const auto weight = verify::Stream(2, "weight").normal(n, 1);
  std::vector<float> y(x.size());
  const auto run = [&] {
    implementation.run({x.data(), rows, n}, weight.data(), 1e-6f, {y.data(), rows, n}, executor);
    benchmark::DoNotOptimize(y.data());
  };
  run();  // a kernel is compiled by its first call
  for (auto _ : state) run();
}

// Every implementation of the registry except the reference, which nobody waits for.
[[maybe_unused]] const bool registered = [] {
  for (const RmsNormImplementation* implementation : rms_norm_implementations()) {
    if (implementation->name == "reference") continue;
    benchmark::RegisterBenchmark(
        ("rms_norm/" + std::string(implementation->name)).c_str(),
        [implementation](benchmark::State& state) { rms_norm_rows(state, *implementation); })
        ->ArgNames({"rows", "n"})
        ->ArgsProduct({{1, 8, 64, 512}, {512, 2048}})
        ->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace tessera::ops
