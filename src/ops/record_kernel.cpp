#include "ops/record_kernel.h"

#include <memory>
#include <string>
#include <utility>

#include "base/fail.h"

namespace tessera::ops {

namespace {

using graph::Spread;

// The kernel bound for every worker: they may read copies of their own.
struct Bound {
  tile::Kernel kernel;
  std::function<std::vector<tile::Argument>(int)> arguments;
  std::vector<tile::BoundCall> calls;

  void bind() {
    for (std::size_t w = 0; w < calls.size(); ++w) {
      kernel.bind(arguments(static_cast<int>(w)), calls[w]);
    }
  }
};

struct PhaseBody {
  std::shared_ptr<const Bound> bound;
  int phase;

  std::int64_t tasks(int) const noexcept { return bound->calls.front().tasks(phase); }
  void run(std::int64_t begin, std::int64_t end, int worker) const noexcept {
    bound->calls[static_cast<std::size_t>(worker)].run(phase, begin, end);
  }
  graph::Work work() const noexcept {
    const auto operations = static_cast<double>(bound->calls.front().work(phase));
    return {operations, 2 * operations};  // a byte for each multiply-add, about
  }
};

}  // namespace

void record_kernel(graph::Recorder& recorder, const graph::LaunchInfo& info, tile::Kernel kernel,
                   std::function<std::vector<tile::Argument>(int worker)> arguments) {
  auto bound = std::make_shared<Bound>();
  bound->kernel = std::move(kernel);
  bound->arguments = std::move(arguments);
  bound->calls.resize(static_cast<std::size_t>(recorder.n_workers()));
  bound->bind();

  const std::size_t scratch_bytes = bound->calls.front().scratch_bytes();
  const int n_phases = bound->calls.front().n_phases();
  graph::BufferInfo scratch_info;
  scratch_info.name = info.name + " scratch";
  scratch_info.bytes = scratch_bytes;
  scratch_info.per_worker = info.spread == Spread::kEvery;
  const graph::Memory scratch = recorder.buffer(scratch_info);
  for (std::size_t w = 0; w < bound->calls.size(); ++w) {
    bound->calls[w].set_scratch(scratch.copy(static_cast<int>(w)));
  }
  recorder.when_resized([bound, scratch_bytes, n_phases, name = info.name] {
    bound->bind();
    for (const tile::BoundCall& call : bound->calls) {
      if (call.n_phases() == n_phases && call.scratch_bytes() <= scratch_bytes) continue;
      fail(ErrorCode::kInvalidArgument,
           "{} was recorded for a shape class that the number of rows is outside of", name);
    }
  });

  for (int phase = 0; phase < n_phases; ++phase) {
    graph::LaunchInfo one = info;
    if (n_phases > 1) one.name += " phase " + std::to_string(phase);
    if (scratch_bytes > 0) {
      one.reads.push_back({scratch.buffer});
      one.writes.push_back({scratch.buffer});
    }
    recorder.launch(std::move(one), PhaseBody{bound, phase});
  }
}

}  // namespace tessera::ops
