// The last iteration reads behind the end.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  loop(x.dim(0), [&](Index i) { assemble(view(x, {1, 40}, {i + 1, 0}), y, {i, 0}); });
}

}  // namespace

int main() {
  return test::expect_refused("TL109", "not shown to lie in it", 9, 9, [] { test::trace(kernel); });
}
