#include "model/graph/step_graphs.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/fail.h"
#include "tile/call/shape_class.h"

namespace tessera {

namespace {

// Whether kernels made for steps of `bucket` tokens are those that run n.
bool serves(std::int64_t bucket, std::int64_t n) {
  return n <= bucket && n >= tile::symbol_class("t", bucket).low;
}

graph::GraphOptions plan_options(const GraphOptions& options) {
  return {options.reduce_overhead ? graph::Merging::kPhases : graph::Merging::kNone,
          options.static_shares, options.frozen_parameters};
}

ops::StepPart part_of(std::string_view name) {
  for (std::size_t p = 0; p < ops::kStepParts; ++p) {
    if (to_string(static_cast<ops::StepPart>(p)) == name) return static_cast<ops::StepPart>(p);
  }
  return ops::StepPart::kOutside;
}

// What the first worker did, which is the thread that runs the step.
void tell(ops::StepProfile& profile, std::span<const ops::StepPart> parts,
          const graph::Timing& timing, int n_phases) {
  const auto seconds = [](const graph::Timing::Span& span) {
    return std::chrono::duration<double>(span.end - span.start).count();
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    profile.move_to(parts[i], seconds(timing.launches[i]));
  }
  for (int p = 0; p < n_phases; ++p) {
    profile.move_to(ops::StepPart::kWaiting, seconds(timing.waits[static_cast<std::size_t>(p)]));
  }
}

}  // namespace

StepGraphs::StepGraphs(const ModelConfig& config, const ModelWeights& weights,
                       ops::Executor& executor, ModelKernels& kernels, KvCache& cache,
                       const GraphOptions& options)
    : config_(config),
      weights_(weights),
      executor_(executor),
      kernels_(kernels),
      cache_(cache),
      options_(options),
      frequencies_(config.rope) {
  const std::vector<std::int64_t>& buckets = options.buckets;
  if (buckets.empty() || buckets.front() < 1 ||
      std::ranges::adjacent_find(buckets, std::greater_equal<>()) != buckets.end()) {
    fail(ErrorCode::kInvalidArgument, "graph buckets must be numbers of tokens that rise from 1");
  }
  same_prolog_.resize(static_cast<std::size_t>(buckets.back()) + 1);
  report_.backend = "tessera";
}

std::optional<std::int64_t> StepGraphs::bucket_for(std::int64_t n) const {
  const auto bucket = std::ranges::lower_bound(options_.buckets, n);
  if (bucket == options_.buckets.end() || !serves(*bucket, n)) return std::nullopt;
  return *bucket;
}

// Whether "auto" takes the same prolog for steps of both sizes; found out once.
bool StepGraphs::same_prolog(std::int64_t rows, std::int64_t bucket) {
  std::optional<bool>& known = same_prolog_[static_cast<std::size_t>(rows)];
  if (known) return *known;
  const auto call = [&](std::int64_t n) {
    static constexpr float kNothing = 0;
    ops::MlaPrologCall probe;
    probe.hidden = {&kNothing, n, config_.hidden_size};
    cache_.direct_to(0, probe);
    return probe;
  };
  known = rows == bucket || kernels_.same_prolog(call(rows), call(bucket));
  return *known;
}

std::optional<StepGraphs::Key> StepGraphs::key_for(std::int64_t rows, std::int64_t n_logits) {
  const std::optional<std::int64_t> bucket = bucket_for(rows);
  const std::optional<std::int64_t> logits_bucket = bucket_for(n_logits);
  if (!bucket || !logits_bucket || !same_prolog(rows, *bucket)) return std::nullopt;
  return Key(*bucket, *logits_bucket);
}

StepGraphs::Captured* StepGraphs::captured(std::int64_t rows, std::int64_t n_logits) {
  const std::optional<Key> key = key_for(rows, n_logits);
  return key ? captured(*key) : nullptr;
}

StepGraphs::Captured* StepGraphs::captured(const Key& key) {
  if (failed_) return nullptr;
  seen_.insert(key);
  auto& made = graphs_[key];
  if (made != nullptr) return made.get();
  const auto start = std::chrono::steady_clock::now();
  try {
    made = capture(key.first, key.second);
  } catch (const Error& error) {
    if (options_.strict) throw;
    failed_ = true;
    report_.backend = "eager";
    kernels_.warn(fmt::format("the step could not be captured as a graph ({}); it runs eagerly",
                              error.what()));
    return nullptr;
  }
  report_.capture_s +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  add_to_report(*made, key.first);
  return made.get();
}

std::unique_ptr<StepGraphs::Captured> StepGraphs::capture(std::int64_t rows,
                                                          std::int64_t n_logits) {
  auto captured = std::make_unique<Captured>(rows, n_logits, frequencies_.n_pairs());
  const StepParts parts{config_, weights_, kernels_, cache_, captured->inputs};
  captured->graph = graph::Graph::capture(
      executor_.n_threads(), plan_options(options_),
      [&](graph::Recorder& recorder) { captured->step = record_step(recorder, parts); });
  for (const graph::Launch& launch : captured->graph->recording().launches) {
    captured->parts.push_back(part_of(launch.info.part));
  }
  captured->rows = rows;
  captured->n_logits = n_logits;
  return captured;
}

void StepGraphs::add_to_report(const Captured& captured, std::int64_t bucket) {
  const graph::Graph& graph = *captured.graph;
  if (std::ranges::find(report_.buckets, bucket) == report_.buckets.end()) {
    report_.buckets.push_back(bucket);
  }
  report_.ops += std::ssize(graph.recording().launches);
  report_.phases += graph.n_phases();
  report_.barriers += graph.n_phases() - 1;
  report_.arena_bytes += graph.placement().arena_bytes;
  report_.eager_bytes += graph.placement().sum_bytes;
}

std::optional<ops::ConstRows> StepGraphs::run(std::span<const Segment> segments) {
  const std::int64_t rows = count_tokens(segments);
  const std::int64_t n_logits = count_logits(segments);
  if (rows == 0 || n_logits == 0) return std::nullopt;
  for (const Segment& s : segments) {  // a graph attends in absorbed form
    if (kernels_.expands(std::ssize(s.tokens))) return std::nullopt;
  }
  const std::optional<Key> key = key_for(rows, n_logits);
  if (!key || seen_.insert(*key).second) return std::nullopt;
  Captured* captured = this->captured(*key);
  if (captured == nullptr) return std::nullopt;
  check_step(segments, config_, cache_);

  StepInputs& inputs = captured->inputs;
  if (captured->rows != rows || captured->n_logits != n_logits) {
    inputs.set_counts(rows, n_logits);
    captured->graph->resize();
    captured->rows = rows;
    captured->n_logits = n_logits;
  }
  for (const Segment& s : segments) cache_.extend(s.sequence, std::ssize(s.tokens));
  inputs.fill(segments, cache_, frequencies_);
  const ops::Rows x = captured->step.x.at(0);
  std::int64_t row = 0;
  for (const Segment& s : segments) {
    for (const std::int32_t token : s.tokens) weights_.embedding.row(token, x.row(row++));
  }
  replay(*captured);
  return captured->step.logits.at(0);
}

void StepGraphs::replay(Captured& captured) {
  graph::Graph& graph = *captured.graph;
  ops::StepProfile* profile = executor_.profile();
  const std::int64_t experts_before = *captured.inputs.experts_read();
  ++report_.replays;
  if (!observer_ && (profile == nullptr || !profile->measures_times())) {
    graph.replay(executor_.pool());
  } else {
    const graph::Timing& timing = graph.replay_measured(executor_.pool());
    if (observer_) observer_(graph, timing);
    if (profile != nullptr) tell(*profile, captured.parts, timing, graph.n_phases());
  }
  if (profile != nullptr) {
    profile->count_experts(*captured.inputs.experts_read() - experts_before);
  }
}

}  // namespace tessera
