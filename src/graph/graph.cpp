#include "graph/graph.h"

#include <algorithm>
#include <cassert>

#include "base/fail.h"

namespace tessera::graph {

namespace {

using Clock = std::chrono::steady_clock;

// Replays whose times the shares are made from. The first ones find cold caches.
constexpr int kMeasuredReplays = 6;

double seconds(const Timing::Span& span) {
  return std::chrono::duration<double>(span.end - span.start).count();
}

}  // namespace

Graph Graph::capture(int n_workers, const GraphOptions& options,
                     const std::function<void(Recorder&)>& record) {
  Graph graph(n_workers, options);
  Recorder first(n_workers, options.frozen_weights);
  record(first);
  const Recording draft = std::move(first).finish();
  graph.phase_of_ = phases_of(draft, options.merging);
  graph.placement_ = place(draft, graph.phase_of_);
  graph.arena_ = Buffer(std::max<std::size_t>(graph.placement_.arena_bytes, 1));

  Recorder second(n_workers, options.frozen_weights, graph.placement_,
                  {graph.arena_.data(), graph.arena_.size()});
  record(second);
  graph.recording_ = std::move(second).finish();
  assert(graph.recording_.launches.size() == draft.launches.size());

  const std::size_t n_launches = graph.recording_.launches.size();
  for (std::size_t i = 0; i < n_launches; ++i) {
    if (i + 1 == n_launches || graph.phase_of_[i + 1] != graph.phase_of_[i]) {
      graph.phase_ends_.push_back(i + 1);
    }
  }
  graph.next_tasks_ = std::make_unique<std::atomic<std::int64_t>[]>(n_launches);
  graph.timing_.launches.resize(n_launches * static_cast<std::size_t>(n_workers));
  graph.timing_.waits.resize(graph.phase_ends_.size() * static_cast<std::size_t>(n_workers));
  return graph;
}

void Graph::resize() const {
  for (const auto& action : recording_.when_resized) action();
}

// Launches of one phase that take no time at all would have no place on its line: see
// estimated_seconds().
void Graph::plan_shares(std::span<const double> seconds) {
  shares_.clear();
  std::size_t first = 0;
  for (const std::size_t end : phase_ends_) {
    const std::vector<Share> shares = share_phase(recording_, first, end - first, seconds);
    shares_.insert(shares_.end(), shares.begin(), shares.end());
    first = end;
  }
}

void Graph::replay(ThreadPool& pool) {
  // The first replays tell what the launches cost.
  if (options_.static_shares && n_measured_ < kMeasuredReplays) {
    replay_measured(pool);
    return;
  }
  run(pool, nullptr);
}

const Timing& Graph::replay_measured(ThreadPool& pool) {
  if (shares_.empty()) {
    std::vector<double> estimated;
    for (const Launch& launch : recording_.launches) {
      estimated.push_back(estimated_seconds(launch.work(launch.body.get())));
    }
    plan_shares(estimated);
  }
  run(pool, &timing_);
  if (options_.static_shares && n_measured_ < kMeasuredReplays) learn(timing_);
  return timing_;
}

void Graph::learn(const Timing& timing) {
  const std::size_t n_launches = recording_.launches.size();
  if (seconds_.empty()) seconds_.assign(n_launches, 1);
  for (std::size_t i = 0; i < n_launches; ++i) {
    double all = 0;
    for (int w = 0; w < n_workers(); ++w) {
      all += seconds(timing.launches[static_cast<std::size_t>(w) * n_launches + i]);
    }
    seconds_[i] = std::max(1e-9, std::min(seconds_[i], all));
  }
  if (++n_measured_ == kMeasuredReplays) plan_shares(seconds_);
}

void Graph::run(ThreadPool& pool, Timing* timing) {
  assert(pool.size() == n_workers());
  barrier_->reset();
  if (!options_.static_shares) {
    for (std::size_t i = 0; i < recording_.launches.size(); ++i) {
      next_tasks_[i].store(0, std::memory_order_relaxed);
    }
  }
  pool.run([&](int worker) { run_worker(worker, timing); });
}

void Graph::run_worker(int worker, Timing* timing) {
  const std::size_t n_launches = recording_.launches.size();
  std::size_t launch = 0;
  for (std::size_t phase = 0; phase < phase_ends_.size(); ++phase) {
    for (; launch < phase_ends_[phase]; ++launch) {
      if (timing == nullptr) {
        run_launch(launch, worker);
        continue;
      }
      Timing::Span& span = timing->launches[static_cast<std::size_t>(worker) * n_launches + launch];
      span.start = Clock::now();
      run_launch(launch, worker);
      span.end = Clock::now();
    }
    if (n_workers() == 1 || phase + 1 == phase_ends_.size()) continue;  // the pool joins the last
    if (timing == nullptr) {
      barrier_->wait(static_cast<std::int64_t>(phase) + 1);
      continue;
    }
    Timing::Span& span =
        timing->waits[static_cast<std::size_t>(worker) * phase_ends_.size() + phase];
    span.start = Clock::now();
    barrier_->wait(static_cast<std::int64_t>(phase) + 1);
    span.end = Clock::now();
  }
}

void Graph::run_launch(std::size_t index, int worker) {
  const Launch& launch = recording_.launches[index];
  const void* body = launch.body.get();
  switch (launch.info.spread) {
    case Spread::kEvery:
      launch.run(body, 0, launch.tasks(body, worker), worker);
      return;
    case Spread::kOne:
      if (worker == 0) launch.run(body, 0, launch.tasks(body, worker), worker);
      return;
    case Spread::kShared:
      break;
  }
  const std::int64_t tasks = launch.tasks(body, worker);
  if (options_.static_shares) {
    const Share& mine = share(index, worker);
    const std::int64_t begin = mine.begin(tasks);
    const std::int64_t end = mine.end(tasks);
    if (begin < end) launch.run(body, begin, end, worker);
    return;
  }
  // Portions small enough that workers which others slow down leave some.
  const std::int64_t portion = std::max<std::int64_t>(1, tasks / (8 * n_workers()));
  std::atomic<std::int64_t>& next = next_tasks_[index];
  for (std::int64_t begin = next.fetch_add(portion, std::memory_order_relaxed); begin < tasks;
       begin = next.fetch_add(portion, std::memory_order_relaxed)) {
    launch.run(body, begin, std::min(tasks, begin + portion), worker);
  }
}

}  // namespace tessera::graph
