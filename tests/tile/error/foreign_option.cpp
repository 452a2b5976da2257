// A pass option of another target.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  set_pass_options({{"cube_nbuffer", 4}});
}

}  // namespace

int main() {
  return test::expect_refused("TL108", "means nothing on a CPU", 9, 9, [] { test::trace(kernel); });
}
