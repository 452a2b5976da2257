// The table of token embeddings, read row by row where the checkpoint has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <tessera/dtype.h>

#include "io/checkpoint.h"

namespace tessera {

class Embedding {
 public:
  Embedding() = default;
  // A tensor [tokens, hidden] of that checkpoint, of a type that compute_dtype() knows.
  Embedding(std::shared_ptr<const Checkpoint> checkpoint, const CheckpointTensor& tensor);

  std::int64_t n_tokens() const { return n_tokens_; }
  std::int64_t hidden() const { return hidden_; }

  // Row `token`, as fp32.
  void row(std::int32_t token, std::span<float> to) const;

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;  // keeps the file mapped
  std::span<const std::byte> bytes_;
  DType dtype_ = DType::kF32;
  std::int64_t n_tokens_ = 0;
  std::int64_t hidden_ = 0;
};

}  // namespace tessera
