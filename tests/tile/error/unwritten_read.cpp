// A local is read where only half of it was written.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  const Tensor kept = local("kept", Element::kF32, {8, 40});
  assemble(view(x, {1, 40}, {0, 0}), kept, {0, 0});
  assemble(view(kept, {2, 40}, {0, 0}), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL102", "not known to be written", 9, 11,
                              [] { test::trace(kernel); });
}
