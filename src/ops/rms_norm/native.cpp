#include <cmath>
#include <utility>

#include "base/multiversion.h"
#include "ops/dot.h"
#include "ops/rms_norm/rms_norm.h"

namespace tessera::ops {

namespace {

TESSERA_MULTIVERSION void rms_norm_row(const float* x, const float* weight, float eps, float* y,
                                       std::int64_t n) {
  const float mean = dot(x, x, n) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + eps);
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

struct RecordedNorm {
  RecordedRows x, y;
  const float* weight;
  float eps;

  std::int64_t tasks(int) const noexcept { return *x.count.now; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    const Rows from = x.at(worker);
    const Rows to = y.at(worker);
    for (std::int64_t row = begin; row < end; ++row) {
      rms_norm_row(from.row(row).data(), weight, eps, to.row(row).data(), x.columns);
    }
  }
  graph::Work work() const noexcept {
    return {0, 4.0 * static_cast<double>(*x.count.now * x.columns)};
  }
};

void record(graph::Recorder& recorder, graph::LaunchInfo info, const RecordedRows& x,
            const float* weight, float eps, const RecordedRows& y) {
  info.op = "rms_norm";
  info.reads = {x.use()};
  info.writes = {y.use()};
  recorder.launch(std::move(info), RecordedNorm{x, y, weight, eps});
}

}  // namespace

void rms_norm(const ConstRows& x, const float* weight, float eps, const Rows& y,
              Executor& executor) {
  const auto norm_row = [&](std::int64_t row) {
    rms_norm_row(x.row(row).data(), weight, eps, y.row(row).data(), x.columns);
  };
  executor.parallel_for(x.rows, 2 * x.rows * x.columns,
                        [&](std::int64_t row, Worker&) { norm_row(row); });
}

constexpr RmsNormImplementation kRmsNormNative = {
    "native", [](std::int64_t, std::int64_t) { return std::string(); }, rms_norm, record};

}  // namespace tessera::ops
