// Rotary embedding by implementation, layout, row count and heads: 16 heads of 64 are V2-Lite's
// queries, between whose rotated values lie the 128 others of a head; 1 head is its key.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/machine.h"
#include "ops/registry.h"
#include "ops/verify/draw.h"

namespace tessera::ops {
namespace {

constexpr std::int64_t kPairs = 32;
constexpr std::int64_t kHead = 192;  // values from a head to the next

void rope_rows(benchmark::State& state, const RopeImplementation& implementation,
               RopeLayout layout) {
  const std::int64_t rows = state.range(0);
  const std::int64_t heads = state.range(1);
  Executor executor(available_cpus());
  auto x = verify::Stream(1, "x").normal(rows * heads * kHead, 1);
  // Turning by one angle leaves the numbers as large as they are, however often it is done.
  const std::vector<float> cos(static_cast<std::size_t>(rows * kPairs), 0.8f);
  const std::vector<float> sin(cos.size(), 0.6f);
  const auto run = [&] {
    implementation.run({x.data(), rows, heads, heads * kHead, kHead}, {cos.data(), rows, kPairs},
                       {sin.data(), rows, kPairs}, layout, executor);
    benchmark::DoNotOptimize(x.data());
  };
  run();  // a kernel is compiled by its first call
  for (auto _ : state) run();
}

// Every implementation of the registry except the reference, which nobody waits for.
[[maybe_unused]] const bool registered = [] {
  for (const RopeImplementation* implementation : rope_implementations()) {
    if (implementation->name == "reference") continue;
    for (RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kHalfSplit}) {
      const std::string name =
          "rope/" + std::string(implementation->name) +
          (layout == RopeLayout::kInterleaved ? "/interleaved" : "/half_split");
      benchmark::RegisterBenchmark(name.c_str(),
                                   [implementation, layout](benchmark::State& state) {
                                     rope_rows(state, *implementation, layout);
                                   })
          ->ArgNames({"rows", "heads"})
          ->ArgsProduct({{1, 8, 64, 512}, {1, 16}})
          ->UseRealTime();
    }
  }
  return true;
}();

}  // namespace
}  // namespace tessera::ops
