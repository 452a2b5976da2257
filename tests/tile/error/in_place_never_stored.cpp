// A tensor that should be updated in place is only read.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel(Tensor x, [[maybe_unused]] Tensor a, [[maybe_unused]] Tensor w, Tensor y) {
  loop(x.dim(0), [&](Index i) { assemble(view(x, {1, 40}, {i, 0}), y, {i, 0}); });
}

}  // namespace

int main() {
  return test::expect_refused("TL104", "nothing is stored to inout x", 0, 0,
                              [] { test::trace_in_place(kernel); });
}
