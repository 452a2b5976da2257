// A step of a model as data: what runs, in which order, on which memory.
//
// A recording is made by calling the operators' record functions (ops/*/record.h) instead of the
// operators. plan.h decides from it where every intermediate result lies and which launches need a
// barrier between them; graph.h replays the outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::graph {

using BufferId = std::int32_t;

// Memory that launches write and read. An external buffer (a KV cache) only stands for memory that
// somebody else owns, so that launches on it keep their order.
struct BufferInfo {
  std::string name;
  std::size_t bytes = 0;    // of one copy; 0 where external
  bool per_worker = false;  // a copy for each worker: one that a launch writes and only that worker
                            // reads later
  bool from_outside = false;  // written before the first launch
  bool to_outside = false;    // read after the last
};

// Parts of a buffer, as bits: launches that touch different parts do not wait for each other.
using Parts = std::uint32_t;
inline constexpr Parts kWhole = ~Parts{0};

struct Use {
  BufferId buffer = 0;
  Parts parts = kWhole;
};

// Who runs a launch.
enum class Spread : std::uint8_t {
  kShared,  // its tasks are shared by the workers
  kEvery,   // every worker runs all of it, into a copy of its own: cheaper than waiting for another
  kOne,     // one worker runs all of it, and all others of this kind in the same phase
};

std::string_view to_string(Spread spread);  // "shared"

// How much there is to do.
struct Work {
  double bytes = 0;       // read from memory: weights and cached tokens
  double operations = 0;  // multiplications and additions
};

struct LaunchInfo {
  std::string name;            // "layer 3 q"
  std::string_view op;         // "linear"
  std::string shape = {};      // "bf16 [3072, 2048]", for people
  std::string_view part = {};  // of the step: "query"; the recorder's, where it is left empty
  Spread spread = Spread::kShared;
  std::vector<Use> reads = {};
  std::vector<Use> writes = {};
};

struct Launch {
  LaunchInfo info;
  std::shared_ptr<const void> body;
  // Called during a replay, by several workers at once: they neither allocate nor throw.
  // How many there are; asked by every worker, of copies of its own.
  std::int64_t (*tasks)(const void* body, int worker) = nullptr;
  void (*run)(const void* body, std::int64_t begin, std::int64_t end, int worker) = nullptr;
  Work (*work)(const void* body) = nullptr;  // of all tasks, after a replay
};

struct Recording {
  int n_workers = 1;
  std::vector<BufferInfo> buffers;
  std::vector<Launch> launches;
  std::vector<std::function<void()>> when_resized;  // see Recorder::when_resized
};

}  // namespace tessera::graph
