// An iteration reads a row that another iteration overwrites.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel(Tensor x, [[maybe_unused]] Tensor a, [[maybe_unused]] Tensor w, Tensor y) {
  loop(x.dim(0) - 1, [&](Index i) {
    const Tile next = view(x, {1, 40}, {i + 1, 0});
    assemble(view(x, {1, 40}, {i, 0}) + next, x, {i, 0});
    assemble(next, y, {i, 0});
  });
}

}  // namespace

int main() {
  return test::expect_refused("TL113", "is not shown to overwrite", 10, 10,
                              [] { test::trace_in_place(kernel); });
}
