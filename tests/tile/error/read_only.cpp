// A store to an input.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(view(x, {1, 40}, {0, 0}), x, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL111", "is an input", 9, 9, [] { test::trace(kernel); });
}
