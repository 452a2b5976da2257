#include <algorithm>
#include <cassert>
#include <vector>

#include "ops/linear/linear.h"
#include "tile/product/product.h"

namespace tessera::ops {

namespace {

// Rows prepared by the calling thread alone: up to here it takes less time than a parallel region.
constexpr std::int64_t kSerialValues = std::int64_t{16} << 10;
// A task reads at least this much of a weight, where the weight has that much for every thread:
// each start of a stream costs what the prefetcher needs to find it.
constexpr std::size_t kTaskBytes = std::size_t{256} << 10;
// Prepared rows that a panel is multiplied with before the next panel's turn: they stay in the
// second-level cache.
constexpr std::int64_t kRowBytes = std::int64_t{512} << 10;

// A job ready to run.
struct Prepared {
  const LinearJob* job;
  const tile::Product* product;
  tile::ProductArguments call;
};

// Jobs that write to one matrix, in order.
struct Group {
  std::vector<std::size_t> jobs;
  std::int64_t strips = 0;
  std::size_t strip_bytes = 0;  // of all jobs
};

struct Task {
  std::size_t group;
  std::int64_t begin;  // strips
  std::int64_t end;
};

bool same_rows(const LinearJob& a, const LinearJob& b) {
  return a.x.data == b.x.data && a.x.rows == b.x.rows && a.x.columns == b.x.columns &&
         a.x.stride == b.x.stride && a.x_rows.data() == b.x_rows.data() &&
         a.x_rows.size() == b.x_rows.size() && a.w->layout() == b.w->layout();
}

Prepared describe(const LinearJob& job) {
  const PackedLinear& w = *job.w;
  assert(job.x.columns == w.k() && job.y.columns == w.n());
  assert(w.is_gate_up() == (job.epilogue == Epilogue::kSwiglu));
  assert(job.epilogue != Epilogue::kScaledAdd || std::ssize(job.y_scale) == job.rows());
  assert(job.y_rows.empty() || std::ssize(job.y_rows) == job.rows());
  tile::ProductArguments call;
  call.x = job.x.data;
  call.x_index = job.x_rows.empty() ? nullptr : job.x_rows.data();
  call.x_stride = job.x.stride * static_cast<std::int64_t>(sizeof(float));
  call.rows = job.rows();
  call.k = w.k();
  call.n = w.n();
  call.weight = w.data();
  call.out = job.y.data;
  call.out_index = job.y_rows.empty() ? nullptr : job.y_rows.data();
  call.out_stride = job.y.stride * static_cast<std::int64_t>(sizeof(float));
  call.row_scale = job.y_scale.data();
  call.epilogue = job.epilogue;
  return {&job, &tile::shared_product(w.layout()), call};
}

std::vector<Group> group_by_output(const std::vector<Prepared>& jobs) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const LinearJob& job = *jobs[i].job;
    auto group = std::ranges::find_if(
        groups, [&](const Group& g) { return jobs[g.jobs.front()].job->y.data == job.y.data; });
    if (group == groups.end()) {
      groups.emplace_back();
      group = groups.end() - 1;
      group->strips = job.w->strips();
    }
    assert(group->strips == job.w->strips());
    group->jobs.push_back(i);
    group->strip_bytes += job.w->strip_bytes();
  }
  return groups;
}

// Cuts a group's strips into equal tasks: four for each thread, unless they become too short.
void add_tasks(const std::vector<Group>& groups, std::size_t index, int n_threads,
               std::vector<Task>& tasks) {
  const Group& group = groups[index];
  const auto shortest =
      static_cast<std::int64_t>((kTaskBytes + group.strip_bytes - 1) / group.strip_bytes);
  const std::int64_t most = 4 * n_threads;
  const std::int64_t count =
      std::clamp<std::int64_t>(std::min(most, group.strips / shortest),
                               std::min<std::int64_t>(n_threads, group.strips), group.strips);
  for (std::int64_t i = 0; i < count; ++i) {
    tasks.push_back({index, group.strips * i / count, group.strips * (i + 1) / count});
  }
}

// Rounds the rows of every job once, in one array.
void prepare_rows(std::vector<Prepared>& jobs, Executor& executor) {
  struct Part {
    std::size_t job;
    std::int64_t block;
  };
  std::vector<Part> parts;
  std::vector<std::int64_t> offsets(jobs.size());
  std::int64_t bytes = 0;
  std::int64_t values = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (i > 0 && same_rows(*jobs[i - 1].job, *jobs[i].job)) {
      offsets[i] = offsets[i - 1];
      continue;
    }
    const tile::ProductArguments& call = jobs[i].call;
    offsets[i] = bytes;
    bytes += (call.rows * jobs[i].product->plan().prepared_row_bytes(call.k) + 63) / 64 * 64;
    values += call.rows * call.k;
    const std::int64_t blocks = jobs[i].product->plan().blocks(call.rows);
    for (std::int64_t block = 0; block < blocks; ++block) parts.push_back({i, block});
  }
  std::byte* memory = executor.worker(0).scratch<std::byte>(Worker::kLinearSlot, bytes);
  for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].call.prepared = memory + offsets[i];

  const auto run = [&](std::int64_t index, Worker&) {
    const Part& part = parts[static_cast<std::size_t>(index)];
    jobs[part.job].product->prepare(jobs[part.job].call, part.block, part.block + 1);
  };
  if (values > kSerialValues) return executor.parallel_for(std::ssize(parts), values * 8, run);
  for (std::int64_t i = 0; i < std::ssize(parts); ++i) run(i, executor.worker(0));
}

void run_task(const Prepared& prepared, const Task& task) {
  const tile::ProductArguments& call = prepared.call;
  const tile::ProductPlan& plan = prepared.product->plan();
  const std::int64_t blocks = plan.blocks(call.rows);
  const std::int64_t block_bytes = plan.max_block_rows * plan.prepared_row_bytes(call.k);
  const std::int64_t step = std::max<std::int64_t>(1, kRowBytes / block_bytes);
  for (std::int64_t block = 0; block < blocks; block += step) {
    prepared.product->multiply(call, task.begin, task.end, block, std::min(blocks, block + step));
  }
}

}  // namespace

void linear(std::span<const LinearJob> jobs, Executor& executor) {
  std::vector<Prepared> prepared;
  std::int64_t work = 0;
  for (const LinearJob& job : jobs) {
    if (job.rows() == 0) continue;
    prepared.push_back(describe(job));
    work += job.rows() * job.w->n() * job.w->k() * (job.w->is_gate_up() ? 2 : 1);
  }
  if (prepared.empty()) return;
  prepare_rows(prepared, executor);

  const std::vector<Group> groups = group_by_output(prepared);
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    add_tasks(groups, i, executor.n_threads(), tasks);
  }
  executor.parallel_for(std::ssize(tasks), work, [&](std::int64_t index, Worker&) {
    const Task& task = tasks[static_cast<std::size_t>(index)];
    for (std::size_t job : groups[task.group].jobs) run_task(prepared[job], task);
  });
}

void linear(const ConstRows& x, const PackedLinear& w, const Rows& y, Executor& executor,
            Epilogue epilogue) {
  LinearJob job;
  job.x = x;
  job.w = &w;
  job.y = y;
  job.epilogue = epilogue;
  linear(std::span(&job, 1), executor);
}

}  // namespace tessera::ops
