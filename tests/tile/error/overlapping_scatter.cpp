// Two columns of the tile go to one of the tensor.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  loop(x.dim(0), [&](Index i) { assemble_at(view(x, {1, 40}, {i, 0}), y, {i, axis(1) / 2}); });
}

}  // namespace

int main() {
  return test::expect_refused("TL103", "different", 9, 9, [] { test::trace(kernel); });
}
