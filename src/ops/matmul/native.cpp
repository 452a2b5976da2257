#include <algorithm>
#include <cassert>
#include <vector>

#include "base/convert.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/primitive_cache.h"

namespace tessera::ops {

namespace {

// The unit of work. A panel of weights (256 x 2048 bf16: 1 MB) fits the second-level cache, so that
// the rows of a block reuse it; the sizes depend on nothing but the shape, which keeps results the
// same for every thread count.
constexpr std::int64_t kPanelColumns = 256;
constexpr std::int64_t kBlockRows = 128;

struct Task {
  std::size_t job;
  std::int64_t first_row;
  std::int64_t first_column;
};

bool multiplies_in_bf16(const MatmulJob& job) {
  return job.w.dtype == DType::kBF16 && MatmulCache::has_bf16();
}

// Weights that oneDNN cannot multiply on this CPU are widened, one panel at a time.
void run_widened(const MatmulJob& job, const ConstRows& x, const WeightView& panel, const Rows& y,
                 Worker& worker) {
  // Keep the panel's own orientation: the contiguous direction stays contiguous.
  const bool k_contiguous = panel.k_stride == 1;
  const std::int64_t lines = k_contiguous ? panel.n : panel.k;
  const std::int64_t length = k_contiguous ? panel.k : panel.n;
  float* wide = worker.scratch<float>(0, panel.n * panel.k);
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::byte* from = k_contiguous ? panel.at(line, 0) : panel.at(0, line);
    convert(from, panel.dtype, wide + line * length, DType::kF32, static_cast<std::size_t>(length));
  }

  const float* rows = x.data;
  std::int64_t x_stride = x.stride;
  if (job.w.dtype == DType::kBF16) {  // the same rounding of x as where bf16 is multiplied natively
    float* rounded = worker.scratch<float>(1, x.rows * x.columns);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t i = 0; i < x.columns; ++i) {
        rounded[r * x.columns + i] = to_float(to_bf16(x.data[r * x.stride + i]));
      }
    }
    rows = rounded;
    x_stride = x.columns;
  }
  worker.matmul_cache().run({DType::kF32, x.rows, panel.n, panel.k, x_stride,
                             k_contiguous ? panel.k : 1, k_contiguous ? 1 : panel.n, y.stride},
                            rows, wide, y.data);
}

void run_task(const MatmulJob& job, const bf16* x_narrow, const Task& task, Worker& worker) {
  const std::int64_t m = std::min(kBlockRows, job.x.rows - task.first_row);
  const std::int64_t n = std::min(kPanelColumns, job.w.n - task.first_column);
  const WeightView panel = job.w.outputs(task.first_column, n);
  const ConstRows x = job.x.rows_from(task.first_row, m);
  const Rows y = job.y.rows_from(task.first_row, m).columns_from(task.first_column, n);

  if (x_narrow != nullptr) {
    worker.matmul_cache().run(
        {DType::kBF16, m, n, panel.k, panel.k, panel.n_stride, panel.k_stride, y.stride},
        x_narrow + task.first_row * panel.k, panel.data, y.data);
  } else if (job.w.dtype == DType::kF32) {
    worker.matmul_cache().run(
        {DType::kF32, m, n, panel.k, x.stride, panel.n_stride, panel.k_stride, y.stride}, x.data,
        panel.data, y.data);
  } else {
    run_widened(job, x, panel, y, worker);
  }
}

}  // namespace

void matmul(std::span<const MatmulJob> jobs, Executor& executor) {
  std::vector<Task> tasks;
  std::int64_t narrow_elements = 0;
  std::int64_t work = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const MatmulJob& job = jobs[i];
    assert(job.x.columns == job.w.k && job.y.columns == job.w.n && job.x.rows == job.y.rows);
    for (std::int64_t row = 0; row < job.x.rows; row += kBlockRows) {
      for (std::int64_t column = 0; column < job.w.n; column += kPanelColumns) {
        tasks.push_back({i, row, column});
      }
    }
    work += job.x.rows * job.w.n * job.w.k;
    if (multiplies_in_bf16(job)) narrow_elements += job.x.rows * job.w.k;
  }

  // Round the activations of all bf16 jobs once, side by side; jobs that share x share the copy.
  bf16* narrow = executor.worker(0).scratch<bf16>(2, narrow_elements);
  std::vector<const bf16*> x_narrow(jobs.size(), nullptr);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const MatmulJob& job = jobs[i];
    if (!multiplies_in_bf16(job)) continue;
    if (i > 0 && x_narrow[i - 1] != nullptr && jobs[i - 1].x.data == job.x.data &&
        jobs[i - 1].x.rows == job.x.rows && jobs[i - 1].x.columns == job.x.columns &&
        jobs[i - 1].x.stride == job.x.stride) {
      x_narrow[i] = x_narrow[i - 1];
      continue;
    }
    x_narrow[i] = narrow;
    for (std::int64_t r = 0; r < job.x.rows; ++r) {
      const auto row = job.x.row(r);
      convert(row, std::span(narrow, row.size()));
      narrow += row.size();
    }
  }

  const auto run = [&](std::int64_t t, Worker& worker) {
    const Task& task = tasks[static_cast<std::size_t>(t)];
    run_task(jobs[task.job], x_narrow[task.job], task, worker);
  };
  executor.parallel_for(std::ssize(tasks), work, run);
}

void matmul(const ConstRows& x, const WeightView& w, const Rows& y, Executor& executor) {
  const MatmulJob job{x, w, y};
  matmul(std::span(&job, 1), executor);
}

}  // namespace tessera::ops
