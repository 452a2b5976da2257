// A kernel of one's own: x + residual, normalised, and the sum kept, in one pass over memory.
//
//   fused_kernel            runs it and compares with plain C++
//   fused_kernel --stage    prints what the compiler made of it
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include <tessera/error.h>
#include <tessera/tile.h>

using namespace tessera::tile;

namespace {

const Dim t = Dim::dynamic("t");
const Dim n = Dim::fixed("n");

const Kernel add_and_normalise =
    jit("add_and_normalise",
        {in("x", {t, n}), in("residual", {t, n}), in("weight", {n}), out("sum", {t, n}),
         out("y", {t, n})},
        [](Tensor x, Tensor residual, Tensor weight, Tensor total, Tensor y) {
          const std::int64_t n = x.size(1);
          const Tile w = view(weight, {n}, {0});
          loop_unroll(x.dim(0), {4, 2}, [&](Index row, int rows) {
            const Tile a = view(x, {rows, n}, {row, 0}) + view(residual, {rows, n}, {row, 0});
            const Tile mean = sum(a * a, 1) * (1.0 / static_cast<double>(n));
            assemble(a, total, {row, 0});
            assemble(a * rsqrt(mean + 1e-6) * w, y, {row, 0});
          });
        });

}  // namespace

int main(int argc, char** argv) try {
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kColumns = 300;
  std::vector<float> x(kRows * kColumns), residual(x.size()), total(x.size()), y(x.size());
  std::vector<float> weight(kColumns, 0.5f);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i));
    residual[i] = std::cos(static_cast<float>(3 * i));
  }
  const Argument arguments[] = {
      argument(x.data(), Element::kF32, {kRows, kColumns}),
      argument(residual.data(), Element::kF32, {kRows, kColumns}),
      argument(weight.data(), Element::kF32, {kColumns}),
      argument(total.data(), Element::kF32, {kRows, kColumns}),
      argument(y.data(), Element::kF32, {kRows, kColumns}),
  };
  if (argc > 1 && std::strcmp(argv[1], "--stage") == 0) {
    std::puts(add_and_normalise.stage("trace", arguments).c_str());
    std::puts(add_and_normalise.stage("scratch", arguments).c_str());
    return 0;
  }
  add_and_normalise.run(2, arguments);

  double worst = 0;
  for (std::size_t r = 0; r < kRows; ++r) {
    double square = 0;
    for (std::size_t j = 0; j < kColumns; ++j) {
      const std::size_t i = r * kColumns + j;
      square += std::pow(double{x[i]} + residual[i], 2);
    }
    for (std::size_t j = 0; j < kColumns; ++j) {
      const std::size_t i = r * kColumns + j;
      const double want =
          (double{x[i]} + residual[i]) / std::sqrt(square / kColumns + 1e-6) * weight[j];
      worst = std::fmax(worst, std::fabs(want - y[i]));
    }
  }
  std::printf("largest difference %.1e\n", worst);
  return worst < 1e-5 ? 0 : 1;
} catch (const tessera::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
