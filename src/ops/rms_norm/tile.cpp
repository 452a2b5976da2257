// RMSNorm as a tile kernel: a row is summed and scaled while it is near.
#include <memory>
#include <utility>
#include <vector>

#include <tessera/tile.h>

#include "ops/kernel_lists.h"
#include "ops/record_kernel.h"
#include "ops/rms_norm/rms_norm.h"

namespace tessera::ops {

namespace {

using namespace tile;  // NOLINT(google-build-using-namespace): the kernel reads as the language

const Dim t = Dim::dynamic("t"), n = Dim::fixed("n");

// x, y [t, n], weight [n], eps [1]; y may be x.
void normalise(const Tensor& x, const Tensor& weight, const Tensor& eps, const Tensor& y) {
  const std::int64_t n = x.size(1);
  loop(x.dim(0), [&](const Index& row) {
    const Tile a = view(x, {1, n}, {row, 0});
    const Tile mean = sum(a * a, 1) * (1.0 / static_cast<double>(n));
    assemble(a * rsqrt(mean + view(eps, {1}, {0})) * view(weight, {n}, {0}), y, {row, 0});
  });
}

const Kernel& kernel() {
  static const Kernel kernel =
      jit("rms_norm",
          {in("x", {t, n}, Element::kF32), in("weight", {n}, Element::kF32),
           in("eps", {1}, Element::kF32), out("y", {t, n}, Element::kF32)},
          normalise);
  return kernel;
}

const Kernel& kernel_in_place() {
  static const Kernel kernel =
      jit("rms_norm_in_place",
          {inout("x", {t, n}, Element::kF32), in("weight", {n}, Element::kF32),
           in("eps", {1}, Element::kF32)},
          [](const Tensor& x, const Tensor& weight, const Tensor& eps) {
            normalise(x, weight, eps, x);
          });
  return kernel;
}

Argument argument_of(const ConstRows& r) {
  return strided_argument(r.data, Element::kF32, {r.rows, r.columns}, {r.stride});
}

void run(const ConstRows& x, const float* weight, float eps, const Rows& y, Executor& executor) {
  if (x.rows == 0 || x.columns == 0) return;
  const RegionScope region(executor.profile());
  ThreadPool& pool = executor.pool(2 * x.rows * x.columns);
  const Argument scale = argument(weight, Element::kF32, {x.columns});
  const Argument epsilon = argument(&eps, Element::kF32, {1});
  if (y.data == x.data) {
    const Argument arguments[] = {argument_of(y), scale, epsilon};
    kernel_in_place().run(pool, arguments);
  } else {
    const Argument arguments[] = {argument_of(x), scale, epsilon, argument_of(y)};
    kernel().run(pool, arguments);
  }
}

void record(graph::Recorder& recorder, graph::LaunchInfo info, const RecordedRows& x,
            const float* weight, float eps, const RecordedRows& y) {
  info.op = "rms_norm";
  info.reads = {x.use()};
  info.writes = {y.use()};
  const bool in_place = x.memory.data == y.memory.data && x.first_column == y.first_column;
  const auto epsilon = std::make_shared<const float>(eps);
  record_kernel(recorder, info, in_place ? kernel_in_place() : kernel(), [=](int worker) {
    const Argument scale = argument(weight, Element::kF32, {x.columns});
    std::vector<Argument> arguments = {argument_of(x.at(worker)), scale,
                                       argument(epsilon.get(), Element::kF32, {1})};
    if (!in_place) arguments.push_back(argument_of(y.at(worker)));
    return arguments;
  });
}

}  // namespace

constexpr RmsNormImplementation kRmsNormTile = {
    "tile", [](std::int64_t, std::int64_t) { return std::string(); }, run, record};

std::vector<TileKernel> rms_norm_kernels() {
  return {{"rms_norm", "tile", kernel()}, {"rms_norm", "tile", kernel_in_place()}};
}

}  // namespace tessera::ops
