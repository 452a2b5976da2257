// The row would be overwritten while what a barrier delays still has to read it.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel(Tensor x, [[maybe_unused]] Tensor a, [[maybe_unused]] Tensor w, Tensor y) {
  loop(x.dim(0), [&](Index i) {
    const Tile b = view(a, {1, 40}, {i, 0});
    const Tile largest = max(matmul(b, w), 1);
    assemble(view(x, {1, 40}, {i, 0}) - largest, y, {i, 0});
    assemble(b, x, {i, 0});
  });
}

}  // namespace

int main() {
  return test::expect_refused("TL203", "may be overwritten before", 12, 12,
                              [] { test::trace_in_place(kernel); });
}
