// One safetensors file of a synthetic model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/thread_pool.h"
#include "model/config.h"
#include "model/synth/piece_writer.h"
#include "model/weights.h"

namespace tessera {

std::size_t bf16_bytes(const TensorShape& tensor);

// Writes shards with all threads of the pool.
class ShardWriter {
 public:
  ShardWriter(const ModelConfig& config, std::uint64_t seed, ThreadPool& pool);

  // written(n_bytes) is called after every batch.
  void write(const std::filesystem::path& path, const std::vector<TensorShape>& tensors,
             const std::function<void(std::size_t)>& written);

 private:
  const ModelConfig& config_;
  std::uint64_t seed_;
  PieceWriter pieces_;
};

}  // namespace tessera
