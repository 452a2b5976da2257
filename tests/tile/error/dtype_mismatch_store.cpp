// Integers into a floating-point tensor.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(cast(view(x, {1, 40}, {0, 0}), Element::kI32), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL107", "cast it", 9, 9, [] { test::trace(kernel); });
}
