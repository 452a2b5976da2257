// Iterations store two rows each and advance by one.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  loop(x.dim(0) - 1, [&](Index i) { assemble(view(x, {2, 40}, {i, 0}), y, {i, 0}); });
}

}  // namespace

int main() {
  return test::expect_refused("TL103", "iterations", 9, 9, [] { test::trace(kernel); });
}
