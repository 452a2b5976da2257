// A stride for each dim, also for the last.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

int main() {
  return test::expect_refused("TL301", "one for each dim but the last", 0, 0, [] {
    const Dim t = Dim::dynamic("t");
    const Kernel kernel = jit("k", {in("x", {t, 40}), out("y", {t, 40})}, [](Tensor x, Tensor y) {
      loop(x.dim(0), [&](Index i) { assemble(view(x, {1, 40}, {i, 0}), y, {i, 0}); });
    });
    const Argument arguments[] = {strided_argument(nullptr, Element::kF32, {5, 40}, {40, 1}),
                                  argument(nullptr, Element::kF32, {5, 40})};
    kernel.prepare(arguments);
  });
}
