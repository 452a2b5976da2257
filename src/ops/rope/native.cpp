#include "ops/rope/rotate.h"

namespace tessera::ops {

void rope(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout) {
  rotate_heads<float>(x, cos, sin, layout);
}

constexpr RopeImplementation kRopeNative = {
    "native", [](std::int64_t, RopeLayout) { return std::string(); },
    [](const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout, Executor&) {
      rope(x, cos, sin, layout);
    }};

}  // namespace tessera::ops
