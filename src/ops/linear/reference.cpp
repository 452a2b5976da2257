#include <algorithm>
#include <cmath>
#include <vector>

#include "base/half.h"
#include "ops/linear/linear.h"

namespace tessera::ops {

namespace {

// Values that share a scale: the largest magnitude becomes 127.
void quantise(std::span<const float> x, std::span<double> rounded) {
  float largest = 0;
  for (float value : x) largest = std::max(largest, std::abs(value));
  const float inverse = largest == 0 ? 0 : 127.0f / largest;
  const double scale = largest / 127.0f;
  for (std::size_t i = 0; i < x.size(); ++i) {
    rounded[i] = scale * static_cast<double>(std::nearbyint(x[i] * inverse));
  }
}

// The row as the layout's product sees it.
std::vector<double> rounded_row(std::span<const float> x, PanelLayout layout) {
  std::vector<double> row(x.begin(), x.end());
  if (layout == PanelLayout::kBF16) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = to_float(to_bf16(x[i]));
  }
  if (is_quantised(layout)) {
    const std::size_t group =
        has_groups(layout) ? std::size_t{tile::cpu::kGroupInputs} : row.size();
    for (std::size_t first = 0; first < row.size(); first += group) {
      const std::size_t count = std::min(group, row.size() - first);
      quantise(x.subspan(first, count), std::span(row).subspan(first, count));
    }
  }
  return row;
}

}  // namespace

void linear_reference(const LinearJob& job, RoundActivations rounding) {
  const PackedLinear& w = *job.w;
  const auto size = static_cast<std::size_t>(w.n() * w.k());
  std::vector<double> weight(size);
  std::vector<double> up(w.is_gate_up() ? size : 0);
  w.unpack(0, weight.data());
  if (w.is_gate_up()) w.unpack(1, up.data());

  for (std::int64_t i = 0; i < job.rows(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::span<const float> x = job.x.row(job.x_rows.empty() ? i : job.x_rows[at]);
    const std::vector<double> row = rounding == RoundActivations::kNo
                                        ? std::vector<double>(x.begin(), x.end())
                                        : rounded_row(x, w.layout());
    const std::span<float> y = job.y.row(job.y_rows.empty() ? i : job.y_rows[at]);
    const auto product = [&](const std::vector<double>& matrix, std::int64_t column) {
      double sum = 0;
      for (std::int64_t j = 0; j < w.k(); ++j) {
        sum +=
            row[static_cast<std::size_t>(j)] * matrix[static_cast<std::size_t>(column * w.k() + j)];
      }
      return sum;
    };
    for (std::int64_t column = 0; column < w.n(); ++column) {
      float& out = y[static_cast<std::size_t>(column)];
      const double p = product(weight, column);
      switch (job.epilogue) {
        case Epilogue::kStore:
          out = static_cast<float>(p);
          break;
        case Epilogue::kAdd:
          out = static_cast<float>(out + p);
          break;
        case Epilogue::kScaledAdd:
          out = static_cast<float>(out + static_cast<double>(job.y_scale[at]) * p);
          break;
        case Epilogue::kSwiglu:
          out = static_cast<float>(p / (1.0 + std::exp(-p)) * product(up, column));
          break;
      }
    }
  }
}

}  // namespace tessera::ops
