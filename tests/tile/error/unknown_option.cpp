// A pass option that does not exist.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

namespace {

void kernel([[maybe_unused]] Tensor x, [[maybe_unused]] Tensor w, [[maybe_unused]] Tensor y) {
  set_pass_options({{"make_it_fast", 1}});
}

}  // namespace

int main() {
  return test::expect_refused("TL108", "no pass option", 9, 9, [] { test::trace(kernel); });
}
