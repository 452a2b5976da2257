#include "base/convert.h"
#include "ops/matmul/matmul.h"

namespace tessera::ops {

void matmul_reference(const ConstRows& x, const WeightView& w, const Rows& y) {
  for (std::int64_t row = 0; row < y.rows; ++row) {
    for (std::int64_t column = 0; column < y.columns; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < w.k; ++i) {
        float a = x.row(row)[static_cast<std::size_t>(i)];
        if (w.dtype == DType::kBF16) a = to_float(to_bf16(a));
        float b = 0;
        convert(w.at(column, i), w.dtype, &b, DType::kF32, 1);
        sum += static_cast<double>(a) * b;
      }
      y.row(row)[static_cast<std::size_t>(column)] = static_cast<float>(sum);
    }
  }
}

}  // namespace tessera::ops
