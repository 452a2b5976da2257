// A tensor of int4 that is no packed weight.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

int main() {
  return test::expect_refused("TL112", "no packed weight", 7, 9, [] {
    jit("k", {in("x", {4}, Element::kI4), out("y", {4})}, [](Tensor, Tensor) {});
  });
}
