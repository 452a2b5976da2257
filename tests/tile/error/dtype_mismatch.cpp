// Arithmetic on integers.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  const Tile a = cast(view(x, {1, 40}, {0, 0}), Element::kI32);
  assemble(a * 2, y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL107", "int32", 9, 10, [] { test::trace(kernel); });
}
