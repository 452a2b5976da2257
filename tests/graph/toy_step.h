// Launches that write numbers into buffers, to see who ran what and when.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/recorder.h"

namespace tessera::testing {

// A buffer of n numbers, the same of every copy.
struct Numbers {
  graph::Memory memory;
  std::int64_t n = 0;

  std::int64_t* of(int worker) const {
    return reinterpret_cast<std::int64_t*>(memory.copy(worker));
  }
  graph::Use use(graph::Parts parts = graph::kWhole) const { return {memory.buffer, parts}; }
};

inline Numbers numbers(graph::Recorder& recorder, std::string name, std::int64_t n,
                       bool per_worker = false) {
  graph::BufferInfo info;
  info.name = std::move(name);
  info.bytes = static_cast<std::size_t>(n) * sizeof(std::int64_t);
  info.per_worker = per_worker;
  return {recorder.buffer(info), n};
}

// to[i] = the sum of all of from + i + add, for every number of `to`.
struct SumBody {
  std::vector<Numbers> from;
  Numbers to;
  std::int64_t add = 0;

  std::int64_t tasks(int) const noexcept { return to.n; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    std::int64_t sum = add;
    for (const Numbers& f : from) {
      for (std::int64_t i = 0; i < f.n; ++i) sum += f.of(worker)[i];
    }
    for (std::int64_t i = begin; i < end; ++i) to.of(worker)[i] = sum + i;
  }
  graph::Work work() const noexcept { return {8.0 * static_cast<double>(to.n), 0}; }
};

inline void sum(graph::Recorder& recorder, std::string name, std::vector<Numbers> from,
                const Numbers& to, graph::Spread spread = graph::Spread::kShared,
                std::int64_t add = 0) {
  graph::LaunchInfo info;
  info.name = std::move(name);
  info.op = "sum";
  info.spread = spread;
  for (const Numbers& f : from) info.reads.push_back(f.use());
  info.writes = {to.use()};
  recorder.launch(std::move(info), SumBody{std::move(from), to, add});
}

}  // namespace tessera::testing
