// A call whose arguments are not what the signature says.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

int main() {
  return test::expect_refused("TL301", "dim 1 n must be 40", 0, 0, [] {
    const Dim t = Dim::dynamic("t"), n = Dim::fixed("n");
    const Kernel kernel = jit("k", {in("x", {t, n}), out("y", {t, n})}, [](Tensor x, Tensor y) {
      loop(x.dim(0), [&](Index i) { assemble(view(x, {1, x.size(1)}, {i, 0}), y, {i, 0}); });
    });
    const Argument arguments[] = {argument(nullptr, Element::kF32, {5, 40}),
                                  argument(nullptr, Element::kF32, {5, 41})};
    kernel.prepare(arguments);
  });
}
