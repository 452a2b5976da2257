// The table of token embeddings, read row by row where a file has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <tessera/dtype.h>

namespace tessera {

class Embedding {
 public:
  Embedding() = default;
  // Rows [tokens, hidden] in mapped memory that `owner` keeps; not aligned.
  Embedding(std::shared_ptr<const void> owner, std::span<const std::byte> bytes, DType dtype,
            std::int64_t n_tokens, std::int64_t hidden);

  std::int64_t n_tokens() const { return n_tokens_; }
  std::int64_t hidden() const { return hidden_; }

  DType dtype() const { return dtype_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Row `token`, as fp32.
  void row(std::int32_t token, std::span<float> to) const;

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
  DType dtype_ = DType::kF32;
  std::int64_t n_tokens_ = 0;
  std::int64_t hidden_ = 0;
};

}  // namespace tessera
