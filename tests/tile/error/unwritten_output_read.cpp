// An output is read before it is written.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(view(y, {1, 40}, {0, 0}), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL102", "not known to be written", 9, 9,
                              [] { test::trace(kernel); });
}
