// An iteration reads more than it overwrites.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel(Tensor x, [[maybe_unused]] Tensor a, [[maybe_unused]] Tensor w, Tensor y) {
  loop(x.dim(0), [&](Index i) {
    const Tile row = view(x, {1, 40}, {i, 0});
    assemble(slice(row, {1, 20}, {0, 20}), x, {i, 0});
    assemble(row, y, {i, 0});
  });
}

}  // namespace

int main() {
  return test::expect_refused("TL113", "(it stores: x[", 10, 10,
                              [] { test::trace_in_place(kernel); });
}
