// An output whose rows run into each other.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

int main() {
  return test::expect_refused("TL301", "its elements overlap", 0, 0, [] {
    const Dim t = Dim::dynamic("t");
    const Kernel kernel = jit("k", {in("x", {t, 40}), out("y", {t, 40})}, [](Tensor x, Tensor y) {
      loop(x.dim(0), [&](Index i) { assemble(view(x, {1, 40}, {i, 0}), y, {i, 0}); });
    });
    const Argument arguments[] = {argument(nullptr, Element::kF32, {5, 40}),
                                  strided_argument(nullptr, Element::kF32, {5, 40}, {39})};
    kernel.prepare(arguments);
  });
}
