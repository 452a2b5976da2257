// The emitted matmul against what the machine can do: the share of the memory-read limit for few
// rows, of the dot-product peak for many.
//
// Each iteration runs the limits and the product one after the other, so that load from elsewhere
// meets all of them, and the product reads weights that are no longer in any cache. Reported are
// the fastest runs: on a shared machine the others measure the neighbours. The share of the read
// limit compares elapsed times, that of the peak CPU times, since long runs always lose some time
// slices.
#include <algorithm>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "tile/limits/limits.h"
#include "tile/packed/panel_layout.h"
#include "tile/product/product.h"

namespace tessera::benchmarks {
namespace {

using namespace tile;
using namespace tile::cpu;

constexpr std::size_t kColdBytes = std::size_t{256} << 20;  // beyond any last-level cache here

struct Shape {
  std::int64_t k;
  std::int64_t n;
};
constexpr std::pair<const char*, Shape> kShapes[] = {
    {"kv_b", {512, 4096}},         {"q_proj", {2048, 3072}},      {"expert_up", {2048, 1408}},
    {"expert_down", {1408, 2048}}, {"dense_down", {10944, 2048}},
};

// out [rows][n] = activations [rows][k] (fp32) * weight: preparing of rows, then panels.
class Rows {
 public:
  Rows(PanelLayout layout, std::int64_t rows, Shape shape)
      : product_(layout),
        strips_(PackedShape{layout, shape.n, shape.k}.panels()),
        activations_(static_cast<std::size_t>(rows * shape.k) * sizeof(float)),
        prepared_(static_cast<std::size_t>(rows * product_.plan().prepared_row_bytes(shape.k))),
        out_(static_cast<std::size_t>(rows * shape.n) * sizeof(float)) {
    std::uint64_t state = 1;
    for (float& value : activations_.as<float>()) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      value = static_cast<float>(static_cast<std::int64_t>(state) >> 40) * 0x1p-23f;
    }
    call_.x = activations_.as<float>().data();
    call_.x_stride = shape.k * static_cast<std::int64_t>(sizeof(float));
    call_.prepared = prepared_.data();
    call_.rows = rows;
    call_.k = shape.k;
    call_.n = shape.n;
    call_.out = out_.as<float>().data();
    call_.out_stride = shape.n * static_cast<std::int64_t>(sizeof(float));
  }

  // The part of worker `index` of `count`, in two regions.
  void prepare(int index, int count) {
    const std::int64_t blocks = product_.plan().blocks(call_.rows);
    product_.prepare(call_, blocks * index / count, blocks * (index + 1) / count);
  }
  void multiply(const std::byte* weight, int index, int count) {
    ProductArguments call = call_;
    call.weight = weight;
    product_.multiply(call, strips_ * index / count, strips_ * (index + 1) / count, 0,
                      product_.plan().blocks(call.rows));
  }

 private:
  Product product_;
  std::int64_t strips_;
  Buffer activations_;
  Buffer prepared_;
  Buffer out_;
  ProductArguments call_;
};

const Buffer& cold_memory() {
  static Buffer memory = [] {
    Buffer buffer(kColdBytes);
    std::uint64_t state = 1;
    for (std::uint16_t& bits : buffer.as<std::uint16_t>()) {  // bf16 in [-2, -1) and [1, 2)
      state = state * 6364136223846793005u + 1442695040888963407u;
      bits = static_cast<std::uint16_t>(0x3f80 | ((state >> 40) & 0x807f));
    }
    return buffer;
  }();
  return memory;
}

double now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Time {
  double wall = 0;
  double cpu = 0;  // of the slowest worker: without what the neighbours took

  void keep_best(const Time& other) {
    wall = wall == 0 ? other.wall : std::min(wall, other.wall);
    cpu = cpu == 0 ? other.cpu : std::min(cpu, other.cpu);
  }
};

// body(worker) on every worker.
template <typename Body>
Time timed(ThreadPool& pool, const Body& body) {
  std::vector<double> cpu(static_cast<std::size_t>(pool.size()));
  const double start = now(CLOCK_MONOTONIC);
  pool.run([&](int worker) {
    const double begin = now(CLOCK_THREAD_CPUTIME_ID);
    body(worker);
    cpu[static_cast<std::size_t>(worker)] = now(CLOCK_THREAD_CPUTIME_ID) - begin;
  });
  return {now(CLOCK_MONOTONIC) - start, *std::max_element(cpu.begin(), cpu.end())};
}

void measure(benchmark::State& state, PanelLayout layout, Shape shape) {
  const std::int64_t rows = state.range(0);
  const auto threads = static_cast<int>(state.range(1));
  ThreadPool pool(threads);
  const Limits limits;
  const Dot dot = dot_of(layout);
  Rows product(layout, rows, shape);
  const PackedShape packed{layout, shape.n, shape.k};
  const auto weight_bytes = static_cast<std::int64_t>(packed.bytes());
  const std::int64_t copies = static_cast<std::int64_t>(kColdBytes) / weight_bytes;

  constexpr std::int64_t kPeakTurns = 4000;
  const double peak_operations = limits.operations(dot, kPeakTurns) * threads;
  Time read;
  Time peak;
  Time prepare;
  Time best;
  std::int64_t copy = 0;
  const auto next_weight = [&] {
    copy = (copy + 1) % copies;
    return cold_memory().data() + copy * weight_bytes;
  };
  for (auto _ : state) {
    const std::byte* memory = next_weight();
    read.keep_best(timed(pool, [&](int i) {
      const std::int64_t step = limits.read_step();
      limits.read(memory, weight_bytes / step * i / threads * step,
                  weight_bytes / step * (i + 1) / threads * step);
    }));
    peak.keep_best(timed(pool, [&](int) { limits.compute(dot, kPeakTurns); }));
    const std::byte* weight = next_weight();
    Time time = timed(pool, [&](int i) { product.prepare(i, threads); });
    prepare.keep_best(time);
    const Time multiply = timed(pool, [&](int i) { product.multiply(weight, i, threads); });
    time = {time.wall + multiply.wall, time.cpu + multiply.cpu};
    best.keep_best(time);
    state.SetIterationTime(time.wall);
  }
  const double flops = 2.0 * static_cast<double>(rows * shape.k * shape.n);
  const auto bytes = static_cast<double>(weight_bytes);
  state.counters["best_us"] = best.wall * 1e6;
  state.counters["best_cpu_us"] = best.cpu * 1e6;
  state.counters["prepare_us"] = prepare.cpu * 1e6;
  state.counters["GB/s"] = bytes / best.wall / 1e9;
  state.counters["read_limit"] = bytes / read.wall / 1e9;
  state.counters["GFLOP/s"] = flops / best.cpu / 1e9;
  state.counters["peak"] = peak_operations / peak.cpu / 1e9;
  state.counters["read_%"] = 100 * read.wall / best.wall;
  state.counters["peak_%"] = 100 * flops / best.cpu / (peak_operations / peak.cpu);
}

void arguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "threads"})->UseManualTime()->Unit(benchmark::kMicrosecond);
  for (std::int64_t threads : {1, 2}) {
    for (std::int64_t rows : {1, 2, 4, 8, 16, 64, 128, 512}) benchmark->Args({rows, threads});
  }
}

// Every layout with every shape.
const bool kRegistered = [] {
  for (PanelLayout layout : kPanelLayouts) {
    for (const auto& [name, shape] : kShapes) {
      const std::string full = std::string(to_string(layout)) + "_" + name;
      arguments(benchmark::RegisterBenchmark(
          full.c_str(),
          [layout, shape](benchmark::State& state) { measure(state, layout, shape); }));
    }
  }
  return true;
}();

}  // namespace
}  // namespace tessera::benchmarks
