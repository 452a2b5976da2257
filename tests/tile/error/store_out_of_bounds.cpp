// A store one column too far.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(view(x, {1, 40}, {0, 0}), y, {0, 1});
}

}  // namespace

int main() {
  return test::expect_refused("TL109", "not shown to lie in it", 9, 9, [] { test::trace(kernel); });
}
