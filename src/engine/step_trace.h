// A timeline of steps, as Chrome and Perfetto read it: one track for each thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "graph/graph.h"
#include "ops/executor.h"
#include "ops/step_profile.h"

namespace tessera {

// Watches an executor for as long as it lives. Eager steps give a span for each parallel region of
// each thread, named after the part of the step; replayed ones, told to add(), one for each launch
// and each wait, with what was read and computed.
class StepTrace {
 public:
  // What more there is to trace is left out, and the file says so.
  static constexpr std::size_t kMostSpans = std::size_t{4} << 20;

  explicit StepTrace(ops::Executor& executor);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // Around an eager step.
  void start_step();
  void stop_step();

  void add(const graph::Graph& graph, const graph::Timing& timing);

  // {"traceEvents": [...]}. Throws Error(kIo).
  void write(const std::filesystem::path& path) const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  struct Span {
    std::uint32_t name = 0;  // of names_
    std::int32_t phase = -1;
    Time start;
    Time end;
    graph::Work work;  // of the whole launch, all workers together
  };
  struct Name {
    std::string name;
    std::string_view category;
    std::string shape;
  };

  // Those of the first worker come from the operators, which may do without the others.
  struct OtherWorkers final : RegionObserver {
    explicit OtherWorkers(StepTrace& trace) : trace(trace) {}
    void ran(int worker, Time start, Time end) override {
      if (worker > 0) trace.add_region(worker, start, end);
    }
    StepTrace& trace;
  };
  struct FirstWorker final : RegionObserver {
    explicit FirstWorker(StepTrace& trace) : trace(trace) {}
    void ran(int, Time start, Time end) override { trace.add_region(0, start, end); }
    StepTrace& trace;
  };

  void add_region(int worker, Time start, Time end);
  std::uint32_t name_of(std::string name, std::string_view category, std::string shape);
  const std::vector<std::uint32_t>& names_of(const graph::Graph& graph);
  bool full() const { return tracks_.front().size() >= kMostSpans; }

  ops::Executor& executor_;
  OtherWorkers other_workers_;
  FirstWorker first_worker_;
  ops::StepProfile profile_;
  std::vector<Name> names_;
  std::uint32_t waiting_;
  std::uint32_t step_;
  std::vector<std::uint32_t> parts_;  // names of the parts of eager steps
  std::map<const graph::Graph*, std::vector<std::uint32_t>> launches_;  // names of their launches
  std::vector<std::vector<Span>> tracks_;  // of every worker; each adds to its own
  Time begin_;
  Time step_start_;
};

}  // namespace tessera
