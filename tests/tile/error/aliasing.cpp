// An output that overlaps an input.
#include "base/thread_pool.h"
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

int main() {
  return test::expect_refused("TL302", "share memory", 0, 0, [] {
    const Dim n = Dim::fixed("n");
    const Kernel kernel = jit("k", {in("x", {n}), out("y", {n})}, [](Tensor x, Tensor y) {
      assemble(view(x, {x.size(0)}, {0}), y, {0});
    });
    float numbers[12] = {};
    tessera::ThreadPool pool(1);
    const Argument arguments[] = {argument(numbers, Element::kF32, {8}),
                                  argument(numbers + 4, Element::kF32, {8})};
    kernel.run(pool, arguments);
  });
}
