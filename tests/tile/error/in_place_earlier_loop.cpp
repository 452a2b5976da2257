// A loop reads what a later loop overwrites.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel(Tensor x, [[maybe_unused]] Tensor a, [[maybe_unused]] Tensor w, Tensor y) {
  loop(x.dim(0), [&](Index i) { assemble(view(x, {1, 40}, {i, 0}), y, {i, 0}); });
  loop(x.dim(0), [&](Index i) { assemble(view(a, {1, 40}, {i, 0}), x, {i, 0}); });
}

}  // namespace

int main() {
  return test::expect_refused("TL113", "is not shown to overwrite", 9, 9,
                              [] { test::trace_in_place(kernel); });
}
