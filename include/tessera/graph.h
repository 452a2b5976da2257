// Graph mode: decode steps are recorded once, planned, and replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct GraphOptions {
  bool enabled = false;
  // With it the plan joins launches into phases and drops the barriers that no data needs; without
  // it there is a barrier behind every launch.
  bool reduce_overhead = true;
  // Weights are looked up when a step is recorded; without it again in every replay.
  bool frozen_parameters = true;
  // Threads' shares of each phase are fixed ahead from measured costs; without it threads take
  // tasks as they come to them.
  bool static_shares = true;
  // Numbers of tokens, rising, that steps are recorded for. A step runs the graph of the next
  // larger bucket whose kernels are made for its number of tokens too (1, 2, 3 to 4, 5 to 8, 9 to
  // 16, 17 and more), and eagerly where there is none.
  std::vector<std::int64_t> buckets = {1, 2, 4, 8, 16};
  bool strict = false;  // a step that cannot be recorded is an error, not a warning
};

// What graph mode did so far.
struct GraphReport {
  std::string backend;   // "tessera"; "eager" where recording failed; empty: not enabled
  double capture_s = 0;  // recording and planning, all graphs together
  std::vector<std::int64_t> buckets;  // that were recorded
  // Of the graphs, summed: operators recorded, phases, barriers of a replay, bytes of memory for
  // intermediate results, and what these would take side by side.
  std::int64_t ops = 0;
  std::int64_t phases = 0;
  std::int64_t barriers = 0;
  std::size_t arena_bytes = 0;
  std::size_t eager_bytes = 0;
  std::int64_t replays = 0;
  std::int64_t eager_steps = 0;
};

}  // namespace tessera
