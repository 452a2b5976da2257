// A reshape across the edge of what is valid.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  loop((x.dim(0) + 7) / 8, [&](Index i) {
    const Tile a =
        view(x, {8, 40}, {i * 8, 0}, {.valid = {min(8, x.dim(0) - i * 8), 40}, .step = {}});
    assemble(reshape(reshape(a, {320}), {8, 40}), y, {i * 8, 0});
  });
}

}  // namespace

int main() {
  return test::expect_refused("TL101", "torn apart", 9, 12, [] { test::trace(kernel); });
}
