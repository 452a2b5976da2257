#include <utility>

#include "ops/rope/rope.h"

namespace tessera::ops {

void rope(const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout) {
  const std::int64_t n_pairs = cos.columns;
  const bool interleaved = layout == RopeLayout::kInterleaved;
  const std::int64_t step = interleaved ? 2 : 1;          // from a pair to the next
  const std::int64_t across = interleaved ? 1 : n_pairs;  // from a pair's first value to its second
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const float* c = cos.row(row).data();
    const float* s = sin.row(row).data();
    for (std::int64_t head = 0; head < x.heads; ++head) {
      float* values = x.at(row, head);
      for (std::int64_t i = 0; i < n_pairs; ++i) {
        float& first = values[i * step];
        float& second = values[i * step + across];
        const float a = first;
        const float b = second;
        first = a * c[i] - b * s[i];
        second = a * s[i] + b * c[i];
      }
    }
  }
}

namespace {

struct RecordedRope {
  RecordedRotation call;
  RopeLayout layout;

  std::int64_t tasks(int) const noexcept { return *call.x.count.now; }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    Heads heads = call.at(worker);
    heads.data += begin * heads.row_stride;
    heads.rows = end - begin;
    rope(heads, call.cos_rows().rows_from(begin, end - begin),
         call.sin_rows().rows_from(begin, end - begin), layout);
  }
  graph::Work work() const noexcept {
    return {0, 40.0 * static_cast<double>(*call.x.count.now * call.heads * call.half)};
  }
};

void record(graph::Recorder& recorder, graph::LaunchInfo info, const RecordedRotation& call,
            RopeLayout layout) {
  info.op = "rope";
  info.reads = {call.x.use()};
  info.writes = {call.x.use()};
  recorder.launch(std::move(info), RecordedRope{call, layout});
}

}  // namespace

constexpr RopeImplementation kRopeNative = {
    "native", [](std::int64_t, RopeLayout) { return std::string(); },
    [](const Heads& x, const ConstRows& cos, const ConstRows& sin, RopeLayout layout, Executor&) {
      rope(x, cos, sin, layout);
    },
    record};

}  // namespace tessera::ops
