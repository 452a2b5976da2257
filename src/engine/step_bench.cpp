#include "engine/step_bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>

#include "base/convert.h"
#include "base/fail.h"
#include "model/forward.h"
#include "model/graph/step_graphs.h"
#include "model/step_cost.h"
#include "model/weight_layout.h"

namespace tessera {

namespace {

using ops::StepPart;

// Random rows for the whole cache: normal values, of which one block is repeated.
void fill_randomly(KvCache& cache, std::int64_t n_layers, ops::Executor& executor) {
  constexpr std::size_t kValues = std::size_t{1} << 16;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kValues);
  for (float& value : values) value = normal(random);
  const std::size_t size = size_in_bytes(cache.dtype());
  std::vector<std::byte> block(kValues * size);
  convert(values.data(), DType::kF32, block.data(), cache.dtype(), kValues);
  executor.pool().parallel_for(n_layers, [&](std::int64_t layer, int) {
    std::span<std::byte> memory = cache.raw_layer(layer);
    for (std::size_t at = 0; at < memory.size(); at += block.size()) {
      std::memcpy(memory.data() + at, block.data(), std::min(block.size(), memory.size() - at));
    }
  });
}

std::int64_t page_tokens(std::int64_t tokens) {
  return (tokens + KvCache::kPageTokens - 1) / KvCache::kPageTokens * KvCache::kPageTokens;
}

}  // namespace

void check_positions(const StepWork& work, const ModelConfig& config) {
  if (work.reached() > config.max_positions) {
    fail(ErrorCode::kInvalidArgument,
         "{} tokens in the cache and {} new ones are more than the {} positions of the model; "
         "choose less",
         work.depth, work.new_tokens, config.max_positions);
  }
}

namespace {

struct Sample {
  double seconds = 0;
  double experts = 0;
  StepCost cost;
  std::array<ops::StepProfile::Time, ops::kStepParts> times = {};
};

// Runs samples, taking back what the last one added.
class Runner {
 public:
  // graph: how to record steps, or nothing for eager ones.
  Runner(LoadedModel& model, const StepWork& work, bool by_part,
         const std::optional<GraphOptions>& graph)
      : model_(model),
        work_(work),
        cache_(model.config, cache_dtype(model.format),
               work.sequences * page_tokens(work.reached()), model.kernels->kv_cache(),
               model.weights.mapped_bytes()),
        forward_(model.config, model.weights, model.executor, *model.kernels),
        profile_(by_part),
        segments_(static_cast<std::size_t>(work.sequences)),
        experts_(static_cast<std::size_t>(work.steps())) {
    if (graph) {
      graphs_.emplace(model.config, model.weights, model.executor, *model.kernels, cache_, *graph);
    }
    if (work.depth > 0) fill_randomly(cache_, model.config.n_layers, model.executor);
    std::mt19937_64 random(2);
    std::uniform_int_distribution<std::int32_t> any(
        0, static_cast<std::int32_t>(model.config.vocab_size - 1));
    ids_.resize(static_cast<std::size_t>(work.sequences * work.new_tokens));
    for (std::int32_t& id : ids_) id = any(random);
  }

  bool replayed() const { return graphs_.has_value(); }
  void run_traced(StepTrace& trace) {
    trace_ = &trace;
    if (graphs_) {
      graphs_->observe([&trace](const graph::Graph& graph, const graph::Timing& timing) {
        trace.add(graph, timing);
      });
    }
    run();
    trace_ = nullptr;
    if (graphs_) graphs_->observe(nullptr);
  }
  GraphReport report() const { return graphs_ ? graphs_->report() : GraphReport(); }

  Sample run() {
    for (Segment& segment : segments_) {
      segment.sequence = cache_.add_sequence();
      cache_.extend(segment.sequence, work_.depth);
    }
    Sample sample;
    for (std::int64_t i = 0; i < work_.steps(); ++i) step(i, sample);
    for (const Segment& segment : segments_) cache_.remove_sequence(segment.sequence);
    count(sample);
    return sample;
  }

 private:
  std::int64_t tokens_of(std::int64_t step) const {
    return std::min(work_.step_tokens, work_.new_tokens - step * work_.step_tokens);
  }
  std::int64_t logits_of(std::int64_t step) const {
    return work_.all_logits || step + 1 == work_.steps() ? 1 : 0;
  }

  void step(std::int64_t index, Sample& sample) {
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      segments_[s].tokens =
          std::span(ids_).subspan(s * static_cast<std::size_t>(work_.new_tokens) +
                                      static_cast<std::size_t>(index * work_.step_tokens),
                                  static_cast<std::size_t>(tokens_of(index)));
      segments_[s].n_logits = logits_of(index);
    }
    if (trace_ != nullptr) return traced_step();
    const Observed observed(model_.executor, profile_);
    const auto start = ops::StepProfile::Clock::now();
    profile_.start();
    if (!graphs_ || !graphs_->run(segments_)) forward_.run(segments_, cache_);
    profile_.stop();
    const auto end = ops::StepProfile::Clock::now();
    sample.seconds += std::chrono::duration<double>(end - start).count();
    experts_[static_cast<std::size_t>(index)] = profile_.experts();
    for (std::size_t p = 0; p < ops::kStepParts; ++p) {
      const auto& time = profile_.time(static_cast<StepPart>(p));
      sample.times[p].seconds += time.seconds;
      sample.times[p].in_regions += time.in_regions;
    }
  }

  void traced_step() {
    if (graphs_ && graphs_->run(segments_)) return;
    trace_->start_step();
    forward_.run(segments_, cache_);
    trace_->stop_step();
  }

  // What the steps had to do.
  void count(Sample& sample) const {
    std::vector<SegmentSize> sizes(segments_.size());
    for (std::int64_t i = 0; i < work_.steps(); ++i) {
      std::ranges::fill(sizes, SegmentSize{work_.depth + i * work_.step_tokens, tokens_of(i),
                                           logits_of(i), model_.kernels->expands(tokens_of(i))});
      const std::int64_t experts = experts_[static_cast<std::size_t>(i)];
      sample.experts += static_cast<double>(experts);
      const StepCost cost = step_cost(model_.config, model_.weights, cache_, sizes, experts);
      for (std::size_t p = 0; p < ops::kStepParts; ++p) sample.cost.parts[p] += cost.parts[p];
    }
  }

  // The executor carries the profile during a step alone.
  struct Observed {
    Observed(ops::Executor& executor, ops::StepProfile& profile) : executor(executor) {
      executor.observe(&profile);
    }
    ~Observed() { executor.observe(nullptr); }
    Observed(const Observed&) = delete;
    Observed& operator=(const Observed&) = delete;
    ops::Executor& executor;
  };

  LoadedModel& model_;
  const StepWork work_;
  KvCache cache_;
  ForwardPass forward_;
  std::optional<StepGraphs> graphs_;
  StepTrace* trace_ = nullptr;
  ops::StepProfile profile_;
  std::vector<Segment> segments_;
  std::vector<std::int64_t> experts_;  // of each step
  std::vector<std::int32_t> ids_;      // [sequences, new_tokens]
};

void add_part(PartMeasurement& part, const ops::StepProfile::Time& time, const PartCost& cost,
              double limit_seconds, double sample_seconds, double steps) {
  part.seconds.add(time.seconds / steps);
  part.kernel_seconds.add(time.in_regions / steps);
  part.share_of_time.add(time.seconds / sample_seconds);
  const double seconds = std::max(time.seconds, 1e-12);
  part.gb_per_second.add(cost.bytes / seconds / 1e9);
  part.gflop_per_second.add(cost.all_operations() / seconds / 1e9);
  part.share_of_limit.add(limit_seconds / seconds);
  part.bytes = cost.bytes / steps;
}

}  // namespace

void run_steps(LoadedModel& model, const StepWork& work) {
  Runner(model, work, false, std::nullopt).run();
}

// What the machine can do now.
struct StepBench::Limit {
  double read = 0;                                       // bytes per second
  std::array<double, std::size(tile::kDots)> dots = {};  // operations per second

  double read_seconds(const PartCost& cost) const { return cost.bytes / read; }
  double dot_seconds(const PartCost& cost) const {
    double seconds = 0;
    for (std::size_t i = 0; i < dots.size(); ++i) {
      if (cost.operations[i] > 0) seconds += cost.operations[i] / dots[i];
    }
    return seconds;
  }
  double seconds(const PartCost& cost) const {
    return std::max(read_seconds(cost), dot_seconds(cost));
  }
  // Halfway between two.
  static Limit between(const Limit& a, const Limit& b) {
    Limit limit;
    limit.read = (a.read + b.read) / 2;
    for (std::size_t d = 0; d < limit.dots.size(); ++d) {
      limit.dots[d] = (a.dots[d] + b.dots[d]) / 2;
    }
    return limit;
  }
};

// Collects the samples of one mode.
class StepBench::Measuring {
 public:
  // first: a sample that is not counted.
  Measuring(const StepWork& work, bool replayed, const Sample& first, bool by_part) {
    m_.work = work;
    m_.replayed = replayed;
    for (std::size_t p = 0; by_part && p < ops::kStepParts; ++p) {
      if (first.times[p].seconds == 0 && first.cost.parts[p].bytes == 0) continue;
      m_.parts.emplace_back().part = static_cast<StepPart>(p);
    }
  }

  void add(const Sample& sample, const Limit& limit) {
    const auto steps = static_cast<double>(m_.work.steps());
    const auto tokens = static_cast<double>(m_.work.sequences * m_.work.new_tokens);
    const PartCost total = sample.cost.total();
    const double limit_seconds = limit.seconds(total);
    read_seconds_ += limit.read_seconds(total);
    dot_seconds_ += limit.dot_seconds(total);
    m_.tokens_per_second.add(tokens / sample.seconds);
    m_.bytes_per_token.add(total.bytes / tokens);
    m_.gb_per_second.add(total.bytes / sample.seconds / 1e9);
    m_.gflop_per_second.add(total.all_operations() / sample.seconds / 1e9);
    m_.limit.add(tokens / limit_seconds);
    m_.share_of_limit.add(limit_seconds / sample.seconds);
    m_.read_gb_per_second.add(limit.read / 1e9);
    m_.dot_gflop_per_second.add(total.all_operations() / limit.dot_seconds(total) / 1e9);
    m_.experts_per_step.add(sample.experts / steps);
    for (PartMeasurement& part : m_.parts) {
      const auto p = static_cast<std::size_t>(part.part);
      add_part(part, sample.times[p], sample.cost.parts[p], limit.seconds(sample.cost.parts[p]),
               sample.seconds, steps);
    }
  }

  StepMeasurement finish(GraphReport graph) && {
    m_.limited_by_reading = read_seconds_ >= dot_seconds_;
    m_.graph = std::move(graph);
    return std::move(m_);
  }

 private:
  StepMeasurement m_;
  double read_seconds_ = 0;
  double dot_seconds_ = 0;
};

StepBench::StepBench(LoadedModel& model, StepModes modes, const GraphOptions& graph)
    : model_(model), modes_(modes), graph_(graph), limits_(model.executor) {}

StepBench::Limit StepBench::limit_now(const PartCost& work) {
  Limit limit;
  limit.read = limits_.read();
  for (tile::Dot dot : tile::kDots) {
    const auto i = static_cast<std::size_t>(dot);
    if (work.operations[i] > 0) limit.dots[i] = limits_.dot(dot);
  }
  return limit;
}

std::vector<StepMeasurement> StepBench::measure(const StepWork& work, int n_samples, bool by_part) {
  check_positions(work, model_.config);
  std::vector<std::unique_ptr<Runner>> runners;
  if (modes_ != StepModes::kReplayed) {
    runners.push_back(std::make_unique<Runner>(model_, work, by_part, std::nullopt));
  }
  if (modes_ != StepModes::kEager) {
    runners.push_back(std::make_unique<Runner>(model_, work, by_part, graph_));
  }
  std::vector<Measuring> measuring;
  PartCost total;
  for (const auto& runner : runners) {
    const Sample sample = runner->run();
    total = sample.cost.total();
    measuring.emplace_back(work, runner->replayed(), sample, by_part);
  }
  Limit before = limit_now(total);
  for (int i = 0; i < n_samples; ++i) {
    for (std::size_t r = 0; r < runners.size(); ++r) {
      // Each mode is the first in every other round.
      const std::size_t index = i % 2 == 0 ? r : runners.size() - 1 - r;
      const Sample sample = runners[index]->run();
      const Limit after = limit_now(sample.cost.total());
      measuring[index].add(sample, Limit::between(before, after));
      before = after;
    }
  }
  std::vector<StepMeasurement> measured;
  for (std::size_t r = 0; r < runners.size(); ++r) {
    measured.push_back(std::move(measuring[r]).finish(runners[r]->report()));
    if (trace_ != nullptr) runners[r]->run_traced(*trace_);
  }
  return measured;
}

}  // namespace tessera
