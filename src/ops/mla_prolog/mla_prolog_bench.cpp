// The KV prolog at V2-Lite's dimensions, bf16, by implementation and row count. GB/s counts the
// bytes of both weights, which come from memory: with few rows that is the limit.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/convert.h"
#include "base/machine.h"
#include "ops/registry.h"
#include "ops/verify/draw.h"

namespace tessera::ops {
namespace {

constexpr MlaDims kLite = {
    .hidden = 2048, .heads = 16, .kv_rank = 512, .nope = 128, .rope = 64, .v = 128};
// Enough layers that their weights come from memory, not from a cache.
constexpr std::size_t kWorkingSetBytes = std::size_t{256} << 20;

Weight random_weight(std::int64_t n, std::int64_t k) {
  Weight weight(DType::kBF16, n, k);
  const auto row = verify::Stream(1, "row").normal(k, 1.0 / 32);
  for (std::int64_t i = 0; i < n; ++i) {
    convert(row.data(), DType::kF32, weight.row(i), DType::kBF16, row.size());
  }
  return weight;
}

struct Layer {
  Weight kv_a = random_weight(kLite.latent_row(), kLite.hidden);
  Weight kv_b = random_weight(kLite.heads * kLite.head_row(), kLite.kv_rank);
  std::unique_ptr<MlaProlog> prolog;
};

void mla_prolog(benchmark::State& state, const MlaPrologImplementation& implementation) {
  const std::int64_t rows = state.range(0);
  Executor executor(available_cpus());
  const std::vector<float> norm(static_cast<std::size_t>(kLite.kv_rank), 1.0f);
  const auto hidden = verify::Stream(2, "hidden").normal(rows * kLite.hidden, 1);
  const auto table = verify::Stream(3, "table").normal(rows * kLite.rope / 2, 1);
  std::vector<bf16> k_nope(static_cast<std::size_t>(rows * kLite.heads * kLite.nope));
  std::vector<bf16> value(static_cast<std::size_t>(rows * kLite.heads * kLite.v));
  std::vector<bf16> k_pe(static_cast<std::size_t>(rows * kLite.rope));
  const auto output = [&](std::vector<bf16>& to, std::int64_t heads, std::int64_t dim) {
    return HeadTensor::dense(reinterpret_cast<std::byte*>(to.data()), DType::kBF16, heads, rows,
                             dim);
  };
  const MlaPrologCall call{.hidden = {hidden.data(), rows, kLite.hidden},
                           .cos = {table.data(), rows, kLite.rope / 2},
                           .sin = {table.data(), rows, kLite.rope / 2},
                           .blocks = 1,
                           .block_tokens = rows,
                           .k_nope = output(k_nope, kLite.heads, kLite.nope),
                           .value = output(value, kLite.heads, kLite.v),
                           .k_pe = output(k_pe, 1, kLite.rope)};

  std::vector<Layer> layers(1);
  const std::size_t layer_bytes = layers[0].kv_a.bytes() + layers[0].kv_b.bytes();
  while (layers.size() * layer_bytes < kWorkingSetBytes) layers.emplace_back();
  for (Layer& layer : layers) {
    const MlaPrologWeights weights{.dims = kLite,
                                   .kv_a = layer.kv_a.view(),
                                   .norm = norm.data(),
                                   .eps = 1e-6f,
                                   .kv_b = layer.kv_b.view()};
    if (const std::string reason = implementation.unsupported(weights, call); !reason.empty()) {
      state.SkipWithError(reason.c_str());
      return;
    }
    layer.prolog = implementation.create(weights, executor);
  }

  std::size_t next = 0;
  for (auto _ : state) {
    layers[next].prolog->run(call, executor);
    next = (next + 1) % layers.size();
  }
  const auto runs = static_cast<double>(state.iterations());
  const std::int64_t products =
      kLite.latent_row() * kLite.hidden + kLite.heads * kLite.head_row() * kLite.kv_rank;
  state.counters["GB/s"] = benchmark::Counter(runs * static_cast<double>(layer_bytes) / 1e9,
                                              benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] = benchmark::Counter(runs * 2e-9 * static_cast<double>(rows * products),
                                                 benchmark::Counter::kIsRate);
}

// Every implementation of the registry except the reference, which nobody waits for.
[[maybe_unused]] const bool registered = [] {
  for (const MlaPrologImplementation* implementation : mla_prolog_implementations()) {
    if (implementation->name == "reference") continue;
    auto* benchmark = benchmark::RegisterBenchmark(
        ("mla_prolog/" + std::string(implementation->name)).c_str(),
        [implementation](benchmark::State& state) { mla_prolog(state, *implementation); });
    for (std::int64_t rows : {1, 2, 4, 8, 16, 32, 64, 128, 512}) benchmark->Arg(rows);
    benchmark->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace tessera::ops
