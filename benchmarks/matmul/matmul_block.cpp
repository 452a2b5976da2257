// The emitted matmul against what the machine can do: the share of the memory-read limit for few
// rows, of the dot-product peak for many.
//
// Each iteration runs the limits and the product one after the other, so that load from elsewhere
// meets all of them, and the product reads weights that are no longer in any cache. Reported are
// the fastest runs: on a shared machine the others measure the neighbours. The share of the read
// limit compares elapsed times, that of the peak CPU times, since long runs always lose some time
// slices.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/thread_pool.h"
#include "benchmarks/matmul/jit_function.h"
#include "benchmarks/matmul/limits.h"
#include "tile/cpu/matmul_emitter.h"
#include "tile/jit/compiler.h"
#include "tile/packed/pack.h"

namespace tessera::benchmarks {
namespace {

using namespace tile::cpu;

constexpr std::size_t kColdBytes = std::size_t{256} << 20;  // beyond any last-level cache here

struct Shape {
  std::int64_t k;
  std::int64_t n;
};
constexpr Shape kKvB{512, 4096};
constexpr Shape kQProj{2048, 3072};
constexpr Shape kExpertUp{2048, 2816};
constexpr Shape kExpertDown{1408, 2048};
constexpr Shape kDenseDown{10944, 2048};

// out[rows][n] (bf16) = activations[rows][k] (bf16) * weight: packing (or quantising) of rows, then
// panels.
class Product {
 public:
  Product(const Target& target, PanelLayout layout, std::int64_t rows, Shape shape)
      : shape_{layout, shape.n, shape.k} {
    MatmulBlock block = choose_block(target, layout, rows);
    if (const char* vectors = std::getenv("BLOCK_VECTORS")) block.vectors = std::atoi(vectors);
    if (const char* most = std::getenv("BLOCK_ROWS")) {
      block.rows = static_cast<int>(std::min<std::int64_t>(rows, std::atoi(most)));
    }
    if (const char* unroll = std::getenv("BLOCK_UNROLL")) block.k_unroll = std::atoi(unroll);
    if (const char* ahead = std::getenv("BLOCK_PREFETCH")) block.prefetch_bytes = std::atoi(ahead);
    cuts_ = cut_rows(rows, block.rows);
    to_ = activation_element(target, layout);
    pack_rows_ = rows > 1 || to_ != Element::kBF16;
    packed_rows_ = Buffer(static_cast<std::size_t>(rows * shape.k * element_bytes(to_)));
    rows_ = rows;
    numbers_ = Buffer(static_cast<std::size_t>(rows) * 8);
    pack_ =
        emit_function(target, 3, 2, [&](VectorBuilder& b, llvm::Function& f) { emit_pack(b, f); });
    run_ = emit_function(target, 4, 2,
                         [&](VectorBuilder& b, llvm::Function& f) { emit_panels(b, f, block); });
  }

  // The part of worker `index` of `count`, in two regions.
  bool packs_rows() const { return pack_rows_; }
  void pack(const std::byte* activations, int index, int count) {
    const auto blocks = static_cast<std::int64_t>(cuts_.size());
    pack_->function<void(const std::byte*, std::byte*, std::byte*, std::int64_t, std::int64_t)>(
        "run")(activations, packed_rows_.data(), numbers_.data(), blocks * index / count,
               blocks * (index + 1) / count);
  }
  void multiply(const std::byte* activations, const std::byte* weight, std::byte* out, int index,
                int count) {
    // Whole pairs of panels, since a block may span two.
    const std::int64_t pairs = (shape_.panels() + 1) / 2;
    const std::byte* rows = pack_rows_ ? packed_rows_.data() : activations;
    run_->function<void(const std::byte*, const std::byte*, std::byte*, const std::byte*,
                        std::int64_t, std::int64_t)>("run")(rows, weight, out, numbers_.data(),
                                                            2 * (pairs * index / count),
                                                            2 * (pairs * (index + 1) / count));
  }

 private:
  // Calls body(block rows, first block, blocks, first row) for the two sizes that cut_rows gives.
  template <typename Body>
  void for_sizes(const Body& body) {
    const auto larger = std::count(cuts_.begin(), cuts_.end(), cuts_.front());
    const auto smaller = static_cast<std::int64_t>(cuts_.size()) - larger;
    body(cuts_.front(), std::int64_t{0}, larger, std::int64_t{0});
    if (smaller > 0) body(cuts_.back(), larger, smaller, larger * cuts_.front());
  }

  void emit_pack(VectorBuilder& b, llvm::Function& f) {
    llvm::IRBuilder<>& ir = b.ir();
    const std::int64_t row_bytes = shape_.k * 2;
    for_sizes([&](int rows, std::int64_t first, std::int64_t count, std::int64_t first_row) {
      const auto limit = [&](llvm::Value* v) {
        v = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, ir.getInt64(first));
        return ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, ir.getInt64(first + count));
      };
      emit_loop(ir, limit(f.getArg(3)), limit(f.getArg(4)), 1, [&](llvm::Value* block) {
        llvm::Value* row =
            ir.CreateAdd(ir.CreateMul(ir.CreateSub(block, ir.getInt64(first)), ir.getInt64(rows)),
                         ir.getInt64(first_row));
        llvm::Value* source = b.at(f.getArg(0), ir.CreateMul(row, ir.getInt64(row_bytes)));
        llvm::Value* packed =
            b.at(f.getArg(1), ir.CreateMul(row, ir.getInt64(shape_.k * element_bytes(to_))));
        if (to_ == Element::kI8) {
          llvm::Value* scales = b.at(f.getArg(2), ir.CreateMul(row, ir.getInt64(4)));
          emit_quantize_rows(b, rows, ir.getInt64(shape_.k), Element::kBF16, source,
                             ir.getInt64(row_bytes), packed, scales, b.at(scales, rows_ * 4));
        } else {
          emit_pack_rows(b, rows, k_interleave(shape_.layout), ir.getInt64(shape_.k),
                         Element::kBF16, source, ir.getInt64(row_bytes), to_, packed);
        }
      });
    });
  }

  void emit_panels(VectorBuilder& b, llvm::Function& f, MatmulBlock block) {
    llvm::IRBuilder<>& ir = b.ir();
    const auto panel_bytes = static_cast<std::int64_t>(shape_.panel_bytes());
    const int columns = block.vectors * b.lanes();
    const int step = std::max(columns, kPanelColumns);
    emit_loop(ir, f.getArg(4), f.getArg(5), step / kPanelColumns, [&](llvm::Value* panel) {
      llvm::Value* weights = b.at(f.getArg(1), ir.CreateMul(panel, ir.getInt64(panel_bytes)));
      for_sizes([&](int rows, std::int64_t, std::int64_t count, std::int64_t first_row) {
        block.rows = rows;
        emit_loop(ir, ir.getInt64(0), ir.getInt64(count), 1, [&](llvm::Value* index) {
          llvm::Value* row =
              ir.CreateAdd(ir.CreateMul(index, ir.getInt64(rows)), ir.getInt64(first_row));
          const std::int64_t group = k_interleave(shape_.layout) * element_bytes(to_);
          const RowOperand operand{
              b.at(f.getArg(0), ir.CreateMul(row, ir.getInt64(shape_.k * element_bytes(to_)))),
              ir.getInt64(group), ir.getInt64(rows * group)};
          llvm::Value* scales = b.at(f.getArg(3), ir.CreateMul(row, ir.getInt64(4)));
          for (int first = 0; first < step; first += columns) {
            MatmulEmitter emitter(b, block);
            Values start = emitter.zeros();
            if (to_ == Element::kI8) {
              Values row_sums;
              for (int r = 0; r < rows; ++r) {
                row_sums.push_back(b.load_scalar(Element::kI32, b.at(scales, (rows_ + r) * 4)));
              }
              start = emitter.corrections(row_sums);
            }
            emitter.finish(
                emitter.multiply(operand, {weights, ir.getInt64(panel_bytes), first},
                                 ir.getInt64(0), ir.getInt64(shape_.k), start),
                [&](int r, int v, llvm::Value* sum) {
                  if (to_ == Element::kI8) {
                    const auto at = static_cast<std::int64_t>(shape_.scale_offset()) +
                                    (first + v * b.lanes()) * 4;
                    sum =
                        b.mul(b.int_to_float(sum), b.broadcast(Element::kF32, b.at(scales, r * 4)));
                    sum = b.mul(sum, b.load(Element::kF32, b.at(weights, at)));
                  }
                  llvm::Value* out_row =
                      ir.CreateMul(ir.CreateAdd(row, ir.getInt64(r)), ir.getInt64(shape_.n * 2));
                  llvm::Value* out_column =
                      ir.CreateAdd(ir.CreateMul(panel, ir.getInt64(kPanelColumns * 2)),
                                   ir.getInt64((first + v * b.lanes()) * 2));
                  b.store(Element::kBF16, sum, b.at(b.at(f.getArg(2), out_row), out_column));
                });
          }
        });
      });
    });
  }

  PackedShape shape_;
  std::vector<int> cuts_;
  Element to_ = Element::kBF16;
  std::int64_t rows_ = 0;
  bool pack_rows_ = false;
  Buffer packed_rows_;
  Buffer numbers_;  // int8: the rows' scales, then their sums
  std::unique_ptr<tile::CompiledCode> pack_;
  std::unique_ptr<tile::CompiledCode> run_;
};

const Target& target() {
  static const Target chosen = describe_target(tile::target_cpu_from_environment());
  return chosen;
}

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
  const Limits limits(target(), layout);
  Product product(target(), layout, rows, shape);
  const PackedShape packed{layout, shape.n, shape.k};
  const auto weight_bytes = static_cast<std::int64_t>(packed.bytes());
  const std::int64_t copies = static_cast<std::int64_t>(kColdBytes) / weight_bytes;
  Buffer activations(static_cast<std::size_t>(rows * shape.k * 2));
  std::memcpy(activations.data(), cold_memory().data(), activations.size());
  Buffer out(static_cast<std::size_t>(rows * shape.n * 2));

  constexpr std::int64_t kPeakIterations = 4000;
  Time read;
  Time peak;
  Time best;
  double peak_operations = 0;
  std::int64_t copy = 0;
  const auto next_weight = [&] {
    copy = (copy + 1) % copies;
    return cold_memory().data() + copy * weight_bytes;
  };
  for (auto _ : state) {
    const std::byte* memory = next_weight();
    read.keep_best(timed(pool, [&](int i) {
      limits.read(memory, weight_bytes / 512 * i / threads * 512,
                  weight_bytes / 512 * (i + 1) / threads * 512);
    }));
    peak.keep_best(timed(pool, [&](int i) {
      const double mine = limits.compute(kPeakIterations);
      if (i == 0) peak_operations = mine * threads;
    }));
    const std::byte* weight = next_weight();
    Time time;
    if (product.packs_rows())
      time = timed(pool, [&](int i) { product.pack(activations.data(), i, threads); });
    const Time multiply = timed(
        pool, [&](int i) { product.multiply(activations.data(), weight, out.data(), i, threads); });
    time = {time.wall + multiply.wall, time.cpu + multiply.cpu};
    best.keep_best(time);
    state.SetIterationTime(time.wall);
  }
  const double flops = 2.0 * static_cast<double>(rows * shape.k * shape.n);
  const auto bytes = static_cast<double>(weight_bytes);
  state.counters["best_us"] = best.wall * 1e6;
  state.counters["best_cpu_us"] = best.cpu * 1e6;
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
    for (std::int64_t rows : {1, 2, 4, 8, 32, 128, 512}) benchmark->Args({rows, threads});
  }
}

BENCHMARK_CAPTURE(measure, bf16_kv_b, PanelLayout::kBF16, kKvB)->Apply(arguments);
BENCHMARK_CAPTURE(measure, bf16_q_proj, PanelLayout::kBF16, kQProj)->Apply(arguments);
BENCHMARK_CAPTURE(measure, i8_kv_b, PanelLayout::kI8, kKvB)->Apply(arguments);
BENCHMARK_CAPTURE(measure, i8_q_proj, PanelLayout::kI8, kQProj)->Apply(arguments);
BENCHMARK_CAPTURE(measure, bf16_expert_up, PanelLayout::kBF16, kExpertUp)->Apply(arguments);
BENCHMARK_CAPTURE(measure, bf16_expert_down, PanelLayout::kBF16, kExpertDown)->Apply(arguments);
BENCHMARK_CAPTURE(measure, bf16_dense_down, PanelLayout::kBF16, kDenseDown)->Apply(arguments);

}  // namespace
}  // namespace tessera::benchmarks
