// A tile of eight million elements.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(sum(expand(view(x, {1, 1}, {0, 0}), {4096, 2048}), 0), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL106", "elements", 9, 9, [] { test::trace(kernel); });
}
