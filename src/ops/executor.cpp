#include "ops/executor.h"

#include "ops/matmul/primitive_cache.h"

namespace tessera::ops {

Worker::Worker() : matmul_cache_(std::make_unique<MatmulCache>()) {}
Worker::~Worker() = default;
Worker::Worker(Worker&&) noexcept = default;

std::byte* Worker::scratch_bytes(int slot, std::size_t bytes) {
  Buffer& buffer = scratch_[slot];
  if (buffer.size() < bytes) buffer = Buffer(bytes);
  return buffer.data();
}

}  // namespace tessera::ops
