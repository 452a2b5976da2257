// Rotary embedding as a tile kernel: whole vectors of pairs, in either layout.
#include <array>
#include <utility>
#include <vector>

#include <tessera/tile.h>

#include "ops/kernel_lists.h"
#include "ops/record_kernel.h"
#include "ops/rope/rope.h"

namespace tessera::ops {

namespace {

using namespace tile;  // NOLINT(google-build-using-namespace): the kernel reads as the language

Kernel make_kernel(RopeLayout layout) {
  const Dim t = Dim::dynamic("t"), heads = Dim::fixed("heads"), half = Dim::fixed("half");
  const bool interleaved = layout == RopeLayout::kInterleaved;
  return jit(interleaved ? "rope_interleaved" : "rope_half_split",
             {inout("x", {t, heads, Dim(2) * half}, Element::kF32),
              in("cos", {t, half}, Element::kF32), in("sin", {t, half}, Element::kF32)},
             [interleaved](Tensor x, Tensor cos, Tensor sin) {
               const std::int64_t heads = x.size(1), half = cos.size(1);
               const Access every{.valid = {}, .step = {1, 1, interleaved ? 2 : 1}};
               loop(x.dim(0), [&](const Index& row) {
                 const Tile c = view(cos, {1, half}, {row, 0});
                 const Tile s = view(sin, {1, half}, {row, 0});
                 const Tile a = view(x, {1, heads, half}, {row, 0, 0}, every);
                 const Tile b = view(x, {1, heads, half}, {row, 0, interleaved ? 1 : half}, every);
                 const Tile first = a * c - b * s;
                 const Tile second = a * s + b * c;
                 if (!interleaved) return assemble(concat({first, second}, 2), x, {row, 0, 0});
                 const Tile pairs = concat(
                     {reshape(first, {1, heads, half, 1}), reshape(second, {1, heads, half, 1})},
                     3);
                 assemble(reshape(pairs, {1, heads, 2 * half}), x, {row, 0, 0});
               });
             });
}

const Kernel& kernel(RopeLayout layout) {
  static const Kernel interleaved = make_kernel(RopeLayout::kInterleaved);
  static const Kernel half_split = make_kernel(RopeLayout::kHalfSplit);
  return layout == RopeLayout::kInterleaved ? interleaved : half_split;
}

std::array<Argument, 3> arguments_of(const Heads& x, const ConstRows& cos, const ConstRows& sin) {
  const auto table = [&](const ConstRows& r) {
    return strided_argument(r.data, Element::kF32, {x.rows, cos.columns}, {r.stride});
  };
  return {strided_argument(x.data, Element::kF32, {x.rows, x.heads, 2 * cos.columns},
                           {x.row_stride, x.head_stride}),
          table(cos), table(sin)};
}

void run(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout,
         Executor& executor) {
  const std::int64_t half = cos.columns;
  if (x.rows == 0 || x.heads == 0 || half == 0) return;
  const std::array<Argument, 3> arguments = arguments_of(x, cos, sin);
  const RegionScope region(executor.profile());
  kernel(layout).run(executor.pool(4 * x.rows * x.heads * half), arguments);
}

void record(graph::Recorder& recorder, graph::LaunchInfo info, const RecordedRotation& call,
            RopeLayout layout) {
  info.op = "rope";
  info.reads = {call.x.use()};
  info.writes = {call.x.use()};
  record_kernel(recorder, info, kernel(layout), [call](int worker) {
    const std::array<Argument, 3> arguments =
        arguments_of(call.at(worker), call.cos_rows(), call.sin_rows());
    return std::vector<Argument>(arguments.begin(), arguments.end());
  });
}

}  // namespace

constexpr RopeImplementation kRopeTile = {
    "tile", [](std::int64_t, RopeLayout) { return std::string(); }, run, record};

std::vector<TileKernel> rope_kernels() {
  return {{"rope", "tile", kernel(RopeLayout::kInterleaved)},
          {"rope", "tile", kernel(RopeLayout::kHalfSplit)}};
}

}  // namespace tessera::ops
