#include "ops/rope/rotate.h"

namespace tessera::ops {

void rope_reference(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout) {
  rotate_heads<double>(x, cos, sin, layout);
}

constexpr RopeImplementation kRopeReference = {
    "reference", [](std::int64_t, RopeLayout) { return std::string(); },
    [](const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout, Executor&) {
      rope_reference(x, cos, sin, layout);
    }};

}  // namespace tessera::ops
