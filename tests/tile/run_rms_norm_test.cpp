// RMSNorm as the operators write it: unrolled rows, a reduction, a store.
#include "tests/tile/harness.h"

namespace tessera::tile::test {
namespace {

Kernel make() {
  const Dim t = Dim::dynamic("t");
  const Dim n = Dim::fixed("n");
  return jit("rms_norm", {in("x", {t, n}), in("weight", {n}), out("y", {t, n})},
             [](Tensor x, Tensor weight, Tensor y) {
               const std::int64_t n = x.size(1);
               const Tile w = view(weight, {n}, {0});
               loop_unroll(x.dim(0), {8, 4, 2, 1}, [&](Index row, int rows) {
                 const Tile a = view(x, {rows, n}, {row, 0});
                 const Tile mean = sum(a * a, 1) * (1.0 / static_cast<double>(n));
                 assemble(a * rsqrt(mean + 1e-6) * w, y, {row, 0});
               });
             });
}

void check(const Kernel& kernel, Element element, std::int64_t t, std::int64_t n) {
  Data x = Data::random(element, {t, n}, static_cast<unsigned>(t * 1000 + n));
  Data w = Data::random(Element::kF32, {n}, 7);
  Data y(element, {t, n});
  run(kernel, {x.argument(), w.argument(), y.argument()}, {&y});
  std::vector<double> scale;
  for (std::int64_t r = 0; r < t; ++r) {
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += x[r * n + j] * x[r * n + j];
    scale.push_back(1 / std::sqrt(sum / static_cast<double>(n) + 1e-6));
  }
  expect_close(
      y, [&](std::int64_t i) { return x[i] * scale[static_cast<std::size_t>(i / n)] * w[i % n]; });
}

TEST(RunRmsNorm, EveryRowCountToSeventy) {
  const Kernel kernel = make();
  for (std::int64_t t = 1; t <= 70; ++t) check(kernel, Element::kF32, t, 40);
}

TEST(RunRmsNorm, TypesAndOddWidths) {
  const Kernel kernel = make();
  for (Element element : {Element::kF32, Element::kBF16, Element::kF16}) {
    for (std::int64_t n : {1, 2, 7, 15, 16, 17, 31, 64, 100, 257, 2048}) {
      for (std::int64_t t : {1, 3, 17}) check(kernel, element, t, n);
    }
  }
}

}  // namespace
}  // namespace tessera::tile::test
