// A view of a packed weight.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(view(w, {1, 40}, {0, 0}), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL101", "packed", 9, 9, [] { test::trace(kernel); });
}
