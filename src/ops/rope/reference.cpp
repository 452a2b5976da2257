#include "ops/rope/rotate.h"

namespace tessera::ops {

void rope_reference(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout) {
  rotate_heads<double>(x, cos, sin, layout);
}

}  // namespace tessera::ops
