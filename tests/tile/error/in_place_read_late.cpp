// A tensor that is updated in place is viewed where it has been overwritten.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel(Tensor x, [[maybe_unused]] Tensor a, [[maybe_unused]] Tensor w, Tensor y) {
  loop(x.dim(0), [&](Index i) {
    assemble(view(x, {1, 40}, {i, 0}) * 2, x, {i, 0});
    assemble(view(x, {1, 40}, {i, 0}), y, {i, 0});
  });
}

}  // namespace

int main() {
  return test::expect_refused("TL113", "has overwritten", 11, 11,
                              [] { test::trace_in_place(kernel); });
}
