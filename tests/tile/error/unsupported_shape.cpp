// A reshape that changes the number of elements.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(reshape(view(x, {4, 40}, {0, 0}), {3, 40}), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL101", "elements", 9, 9, [] { test::trace(kernel); });
}
