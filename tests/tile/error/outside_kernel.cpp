// An operation outside of a kernel's body.
#include "tests/tile/error/refused.h"

using namespace tessera::tile;

int main() {
  return test::expect_refused("TL110", "outside of a kernel", 7, 8, [] { full({2, 2}, 1); });
}
