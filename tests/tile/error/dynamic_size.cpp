// The size of a dynamic dim as a number.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  x.size(0);
}

}  // namespace

int main() {
  return test::expect_refused("TL105", "dynamic", 9, 9, [] { test::trace(kernel); });
}
