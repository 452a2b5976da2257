// A tile of as many rows as the call has.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(view(x, {x.dim(0), 40}, {0, 0}), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL105", "is dynamic", 9, 9, [] { test::trace(kernel); });
}
