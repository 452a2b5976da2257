#include "ops/rope/rotate.h"

namespace tessera::ops {

void rope(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout) {
  rotate_heads<float>(x, cos, sin, layout);
}

}  // namespace tessera::ops
