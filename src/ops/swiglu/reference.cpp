#include <cmath>

#include "ops/swiglu/swiglu.h"

namespace tessera::ops {

void swiglu_reference(const ConstRows& gate_up, const Rows& y) {
  for (std::int64_t row = 0; row < y.rows; ++row) {
    const float* gate = gate_up.row(row).data();
    const float* up = gate + y.columns;
    for (std::int64_t i = 0; i < y.columns; ++i) {
      const double g = gate[i];
      y.row(row).data()[i] = static_cast<float>(g / (1.0 + std::exp(-g)) * up[i]);
    }
  }
}

}  // namespace tessera::ops
