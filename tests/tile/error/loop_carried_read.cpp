// An iteration reads what another one wrote.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  const Tensor kept = local("kept", Element::kF32, {x.dim(0) + 1, 40});
  loop(x.dim(0), [&](Index i) {
    assemble(view(x, {1, 40}, {i, 0}), kept, {i + 1, 0});
    assemble(view(kept, {1, 40}, {i, 0}), y, {i, 0});
  });
}

}  // namespace

int main() {
  return test::expect_refused("TL102", "not known to be written", 9, 13,
                              [] { test::trace(kernel); });
}
