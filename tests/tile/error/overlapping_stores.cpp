// Two stores share ten columns.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  loop(x.dim(0), [&](Index i) {
    assemble(view(x, {1, 30}, {i, 0}), y, {i, 0});
    assemble(view(x, {1, 20}, {i, 0}), y, {i, 20});
  });
}

}  // namespace

int main() {
  return test::expect_refused("TL103", "lies outside", 9, 12, [] { test::trace(kernel); });
}
