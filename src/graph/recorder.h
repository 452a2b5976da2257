// Makes a recording.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "graph/placement.h"
#include "graph/recording.h"

namespace tessera::graph {

// Where a buffer lies.
struct Memory {
  BufferId buffer = 0;
  std::byte* data = nullptr;    // of the first worker's copy
  std::size_t copy_stride = 0;  // between the copies of two workers; 0: there is one copy
  std::byte* copy(int worker) const {
    return data + static_cast<std::size_t>(worker) * copy_stride;
  }
};

// What a launch runs. tasks(worker) may depend on what earlier launches of the step wrote.
template <typename T>
concept Body = requires(const T& body, std::int64_t task, int worker) {
  { body.tasks(worker) } noexcept -> std::convertible_to<std::int64_t>;
  { body.run(task, task, worker) } noexcept;  // tasks [begin, end)
  { body.work() } noexcept -> std::convertible_to<Work>;
};

// A step is recorded twice by the same code: first on addresses that nobody may touch, to learn
// which buffers there are and how long each is needed, then on those that were planned.
class Recorder {
 public:
  // frozen_weights: whether bodies may keep what they know of weights, or ask again in every run.
  Recorder(int n_workers, bool frozen_weights);
  Recorder(int n_workers, bool frozen_weights, const Placement& placement,
           std::span<std::byte> arena);

  int n_workers() const { return recording_.n_workers; }
  bool frozen_weights() const { return frozen_weights_; }

  // Which part of the step the launches to come are; must stay.
  void set_part(std::string_view part) { part_ = part; }

  // Aligned to 64 bytes.
  Memory buffer(BufferInfo info);
  // Stands for memory of somebody else.
  BufferId external(std::string name);

  template <Body T>
  void launch(LaunchInfo info, T body) {
    Launch launch;
    launch.info = std::move(info);
    if (launch.info.part.empty()) launch.info.part = part_;
    launch.body = std::make_shared<const T>(std::move(body));
    launch.tasks = [](const void* b, int worker) -> std::int64_t {
      return static_cast<const T*>(b)->tasks(worker);
    };
    launch.run = [](const void* b, std::int64_t begin, std::int64_t end, int worker) {
      static_cast<const T*>(b)->run(begin, end, worker);
    };
    launch.work = [](const void* b) -> Work { return static_cast<const T*>(b)->work(); };
    recording_.launches.push_back(std::move(launch));
  }

  // Called before a replay of another number of rows than the last, for bodies that keep something
  // that depends on it. May throw and allocate.
  void when_resized(std::function<void()> action);

  Recording finish() && { return std::move(recording_); }

 private:
  Recording recording_;
  const bool frozen_weights_;
  std::string_view part_;
  const Placement* placement_ = nullptr;
  std::byte* next_ = nullptr;  // the next address: of the arena, or that nobody may touch
};

}  // namespace tessera::graph
