// A bf16 tile times an fp32 weight.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  assemble(slice(matmul(cast(view(x, {1, 40}, {0, 0}), Element::kBF16), w), {1, 40}, {0, 0}), y,
           {0, 0});
}

}  // namespace

int main() {
  return test::expect_refused("TL107", "one element type", 9, 9, [] { test::trace(kernel); });
}
