// A result that nothing uses.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  loop(x.dim(0), [&](Index i) {
    const Tile a = view(x, {1, 40}, {i, 0});
    assemble(a, y, {i, 0});
    exp(a);
  });
}

}  // namespace

int main() {
  return test::expect_refused("TL104", "never stored", 9, 13, [] { test::trace(kernel); });
}
