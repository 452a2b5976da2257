// Matrices of a recorded step (graph/recording.h): as many rows as the step has tokens, which may
// be fewer in a replay than when it was recorded.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "graph/recorder.h"
#include "ops/rows.h"

namespace tessera::ops {

// The number of rows: of the present replay, and at most.
struct RowCount {
  const std::int64_t* now = nullptr;
  std::int64_t max = 0;
};

// fp32 [count, columns] in a step's arena, one copy or one for each worker.
struct RecordedRows {
  graph::Memory memory;
  graph::Parts parts = graph::kWhole;
  RowCount count;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // in elements

  graph::Use use() const { return {memory.buffer, parts}; }
  bool has_copies() const { return memory.copy_stride != 0; }
  // As a worker sees it, now.
  Rows at(int worker) const {
    return {reinterpret_cast<float*>(memory.copy(worker)) + first_column, *count.now, columns,
            stride};
  }
  // n columns from column c on of every row; `part` says which they are to the planner.
  RecordedRows columns_from(std::int64_t c, std::int64_t n, graph::Parts part) const {
    RecordedRows some = *this;
    some.parts = part;
    some.first_column += c;
    some.columns = n;
    return some;
  }
};

enum class Copies : std::uint8_t { kOne, kPerWorker };

inline RecordedRows record_rows(graph::Recorder& recorder, std::string name, RowCount count,
                                std::int64_t columns, Copies copies = Copies::kOne) {
  graph::BufferInfo info;
  info.name = std::move(name);
  info.bytes = static_cast<std::size_t>(count.max * columns) * sizeof(float);
  info.per_worker = copies == Copies::kPerWorker;
  RecordedRows rows;
  rows.memory = recorder.buffer(std::move(info));
  rows.count = count;
  rows.columns = columns;
  rows.stride = columns;
  return rows;
}

// What is so small that every worker rather computes it than waits for another: about a
// microsecond.
inline constexpr std::int64_t kValuesOfEveryWorker = std::int64_t{16} << 10;

inline bool every_worker_computes(RowCount count, std::int64_t columns) {
  return count.max * columns <= kValuesOfEveryWorker;
}

}  // namespace tessera::ops
