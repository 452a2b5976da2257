#include "graph/recorder.h"

#include <cassert>

namespace tessera::graph {

std::string_view to_string(Spread spread) {
  switch (spread) {
    case Spread::kShared:
      return "shared";
    case Spread::kEvery:
      return "every worker";
    case Spread::kOne:
      return "one worker";
  }
  return {};
}

Recorder::Recorder(int n_workers, bool frozen_weights)
    : frozen_weights_(frozen_weights),
      // Far from anything that is mapped, and aligned.
      next_(reinterpret_cast<std::byte*>(std::uintptr_t{1} << 52)) {  // NOLINT
  recording_.n_workers = n_workers;
}

Recorder::Recorder(int n_workers, bool frozen_weights, const Placement& placement,
                   std::span<std::byte> arena)
    : frozen_weights_(frozen_weights), placement_(&placement), next_(arena.data()) {
  assert(arena.size() >= placement.arena_bytes);
  recording_.n_workers = n_workers;
}

Memory Recorder::buffer(BufferInfo info) {
  const std::size_t index = recording_.buffers.size();
  Memory memory;
  memory.buffer = static_cast<BufferId>(index);
  const std::size_t stride = copy_stride(info);
  if (info.per_worker) memory.copy_stride = stride;
  if (placement_ != nullptr) {
    assert(index < placement_->offsets.size());
    memory.data = next_ + placement_->offsets[index];
  } else {
    memory.data = next_;
    next_ += stride * static_cast<std::size_t>(info.per_worker ? recording_.n_workers : 1);
  }
  recording_.buffers.push_back(std::move(info));
  return memory;
}

BufferId Recorder::external(std::string name) {
  BufferInfo info;
  info.name = std::move(name);
  recording_.buffers.push_back(std::move(info));
  return static_cast<BufferId>(recording_.buffers.size() - 1);
}

void Recorder::when_resized(std::function<void()> action) {
  recording_.when_resized.push_back(std::move(action));
}

}  // namespace tessera::graph
