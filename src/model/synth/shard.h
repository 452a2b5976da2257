// One safetensors file of a synthetic model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "model/config.h"
#include "model/weights.h"

namespace tessera {

std::size_t bf16_bytes(const TensorShape& tensor);

// Writes shards with all threads of the pool, holding two batches of 32 MB: one is computed while
// the one before goes to the disk.
class ShardWriter {
 public:
  ShardWriter(const ModelConfig& config, std::uint64_t seed, ThreadPool& pool);

  // written(n_bytes) is called after every batch.
  void write(const std::filesystem::path& path, const std::vector<TensorShape>& tensors,
             const std::function<void(std::size_t)>& written);

 private:
  const ModelConfig& config_;
  std::uint64_t seed_;
  ThreadPool& pool_;
  Buffer computed_;
  Buffer ready_;
};

}  // namespace tessera
