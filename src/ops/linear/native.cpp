#include <algorithm>
#include <cassert>
#include <vector>

#include "ops/linear/linear.h"
#include "tile/product/product.h"

namespace tessera::ops {

namespace {

// Rows prepared by the calling thread alone: up to here it takes less time than a parallel region.
constexpr std::int64_t kSerialValues = std::int64_t{16} << 10;
// A task takes at least as long as reading this much of a weight for one row: each start of a
// stream costs what the prefetcher needs to find it.
constexpr std::int64_t kTaskBytes = std::int64_t{256} << 10;
// So that threads which other programs slow down leave tasks to the others.
constexpr std::int64_t kTasksPerThread = 8;

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
  std::int64_t strip_work = 0;  // of all jobs: bytes of a strip times rows
};

struct Task {
  std::size_t group;
  std::int64_t begin;  // strips
  std::int64_t end;
  std::int64_t owner;  // the thread that begins with it, where they all keep pace
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
    group->strip_work += static_cast<std::int64_t>(job.w->strip_bytes()) * job.rows();
  }
  return groups;
}

// Cuts a group's strips into equal tasks. How they are cut changes no result.
void add_tasks(const std::vector<Group>& groups, std::size_t index, int n_threads,
               std::vector<Task>& tasks) {
  const Group& group = groups[index];
  const std::int64_t shortest = (kTaskBytes + group.strip_work - 1) / group.strip_work;
  const std::int64_t wanted = std::min(kTasksPerThread * n_threads, group.strips / shortest);
  const std::int64_t count = std::clamp<std::int64_t>(
      wanted, std::min<std::int64_t>(n_threads, group.strips), group.strips);
  for (std::int64_t i = 0; i < count; ++i) {
    tasks.push_back({index, group.strips * i / count, group.strips * (i + 1) / count,
                     (2 * i + 1) * n_threads / (2 * count)});
  }
}

// So that of every weight a thread reads the same part, as far as it can be, whatever other weights
// are at work: the part whose memory it touched first when the weight was packed.
void by_owner(std::vector<Task>& tasks) {
  std::ranges::stable_sort(tasks, {}, &Task::owner);
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
  if (groups.size() > 1) by_owner(tasks);
  executor.parallel_for(std::ssize(tasks), work, [&](std::int64_t index, Worker&) {
    const Task& task = tasks[static_cast<std::size_t>(index)];
    // A panel stays in the second-level cache while all rows pass it; the rows come from the third.
    // (Taking them in portions that stay near instead made no difference.)
    for (std::size_t i : groups[task.group].jobs) {
      const Prepared& job = prepared[i];
      job.product->multiply(job.call, task.begin, task.end, 0,
                            job.product->plan().blocks(job.call.rows));
    }
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
