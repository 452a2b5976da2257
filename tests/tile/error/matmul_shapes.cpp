// A matmul whose inner extents differ.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(matmul(view(x, {1, 30}, {0, 0}), w), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL101", "summed extents", 9, 9, [] { test::trace(kernel); });
}
