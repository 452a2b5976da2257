// An output that nothing is stored to.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  x.dim(0);
}

}  // namespace

int main() {
  return test::expect_refused("TL104", "nothing is stored to out y", 0, 0,
                              [] { test::trace(kernel); });
}
