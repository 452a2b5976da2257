#include "engine/step_trace.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/text_file.h"

namespace tessera {

namespace {

using ops::StepPart;

double microseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

StepTrace::StepTrace(ops::Executor& executor)
    : executor_(executor),
      other_workers_(*this),
      first_worker_(*this),
      profile_(true, &first_worker_),
      waiting_(name_of("waiting", "wait", "")),
      step_(name_of("step", "step", "")),
      tracks_(static_cast<std::size_t>(executor.n_threads())),
      begin_(std::chrono::steady_clock::now()) {
  for (std::size_t p = 0; p < ops::kStepParts; ++p) {
    parts_.push_back(name_of(std::string(to_string(static_cast<StepPart>(p))), "eager", ""));
  }
  executor_.pool().observe(&other_workers_);
}

StepTrace::~StepTrace() {
  executor_.pool().observe(nullptr);
}

std::uint32_t StepTrace::name_of(std::string name, std::string_view category, std::string shape) {
  names_.push_back({std::move(name), category, std::move(shape)});
  return static_cast<std::uint32_t>(names_.size() - 1);
}

void StepTrace::start_step() {
  executor_.observe(&profile_);
  profile_.start();
  step_start_ = std::chrono::steady_clock::now();
}

void StepTrace::stop_step() {
  profile_.stop();
  executor_.observe(nullptr);
  if (!full()) {
    tracks_.front().push_back({step_, -1, step_start_, std::chrono::steady_clock::now(), {}});
  }
}

void StepTrace::add_region(int worker, Time start, Time end) {
  if (executor_.profile() != &profile_) return;  // a replay tells more itself
  std::vector<Span>& track = tracks_[static_cast<std::size_t>(worker)];
  if (track.size() >= kMostSpans) return;
  track.push_back({parts_[static_cast<std::size_t>(profile_.part())], -1, start, end, {}});
}

const std::vector<std::uint32_t>& StepTrace::names_of(const graph::Graph& graph) {
  std::vector<std::uint32_t>& names = launches_[&graph];
  if (!names.empty()) return names;
  for (const graph::Launch& launch : graph.recording().launches) {
    names.push_back(name_of(launch.info.name, launch.info.part, launch.info.shape));
  }
  return names;
}

void StepTrace::add(const graph::Graph& graph, const graph::Timing& timing) {
  if (full()) return;
  const std::vector<std::uint32_t>& names = names_of(graph);
  const std::size_t n_launches = names.size();
  const auto n_phases = static_cast<std::size_t>(graph.n_phases());
  std::vector<graph::Work> work;
  work.reserve(n_launches);
  for (const graph::Launch& launch : graph.recording().launches) {
    work.push_back(launch.work(launch.body.get()));
  }
  for (std::size_t w = 0; w < tracks_.size(); ++w) {
    for (std::size_t i = 0; i < n_launches; ++i) {
      const graph::Timing::Span& span = timing.launches[w * n_launches + i];
      tracks_[w].push_back({names[i], graph.phase_of(i), span.start, span.end, work[i]});
    }
    for (std::size_t p = 0; p + 1 < n_phases; ++p) {
      const graph::Timing::Span& span = timing.waits[w * n_phases + p];
      tracks_[w].push_back({waiting_, static_cast<std::int32_t>(p), span.start, span.end, {}});
    }
  }
}

// One event a line. Times are microseconds from the beginning; rates are of the launch as a whole,
// as if all workers had taken as long as this one.
void StepTrace::write(const std::filesystem::path& path) const {
  using Json = nlohmann::ordered_json;
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  for (std::size_t w = 0; w < tracks_.size(); ++w) {
    const Json name = {{"name", "thread_name"},
                       {"ph", "M"},
                       {"pid", 1},
                       {"tid", w},
                       {"args", {{"name", fmt::format("worker {}", w)}}}};
    text += name.dump() + ",\n";
    for (const Span& span : tracks_[w]) {
      const Name& n = names_[span.name];
      const double us = microseconds(span.end - span.start);
      if (us <= 0 || span.end == Time()) continue;
      Json event = {
          {"name", n.name}, {"cat", std::string(n.category)},          {"ph", "X"}, {"pid", 1},
          {"tid", w},       {"ts", microseconds(span.start - begin_)}, {"dur", us}};
      if (span.phase >= 0) event["args"]["phase"] = span.phase;
      if (!n.shape.empty()) event["args"]["shape"] = n.shape;
      if (span.work.bytes > 0) {
        event["args"]["bytes"] = span.work.bytes;
        event["args"]["GB/s"] = span.work.bytes / us / 1e3;
      }
      if (span.work.operations > 0) {
        event["args"]["GFLOP/s"] = span.work.operations / us / 1e3;
      }
      text += event.dump() + ",\n";
    }
  }
  const Json end = {{"name", full() ? "the trace is full" : "end"},
                    {"ph", "i"},
                    {"pid", 1},
                    {"tid", 0},
                    {"s", "g"},
                    {"ts", microseconds(std::chrono::steady_clock::now() - begin_)}};
  write_text_file(path, text + end.dump() + "\n]}\n");
}

}  // namespace tessera
