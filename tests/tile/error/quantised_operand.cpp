// A bf16 tile times an int8 weight.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel(Tensor x, Tensor w, Tensor y) {
  const Tile narrow = cast(view(x, {1, 64}, {0, 0}), Element::kBF16);
  assemble(matmul(narrow, w), y, {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL107", "an fp32 left operand", 10, 10, [] {
    const Kernel refused = jit(
        "refused",
        {in("x", {1, 64}, Element::kF32), weight("w", {32, 64}, Element::kI8), out("y", {1, 32})},
        kernel);
    const Argument arguments[] = {argument(nullptr, Element::kF32, {1, 64}),
                                  packed_argument(nullptr, Element::kI8, 32, 64),
                                  argument(nullptr, Element::kF32, {1, 32})};
    refused.stage("scratch", arguments);
  });
}
