// A concat of parts that do not fit.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(concat({view(x, {1, 20}, {0, 0}), view(x, {2, 20}, {0, 0})}, 1), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL101", "does not continue", 9, 9, [] { test::trace(kernel); });
}
