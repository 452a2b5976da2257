// A body that takes fewer tensors than the signature has.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

int main() {
  return test::expect_refused("TL112", "the body takes 1", 7, 9,
                              [] { jit("k", {in("x", {4}), out("y", {4})}, [](Tensor) {}); });
}
