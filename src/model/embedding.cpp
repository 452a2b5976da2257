#include "model/embedding.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/convert.h"

namespace tessera {

Embedding::Embedding(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                     DType dtype, std::int64_t n_tokens, std::int64_t hidden)
    : owner_(std::move(owner)), bytes_(bytes), dtype_(dtype), n_tokens_(n_tokens), hidden_(hidden) {
  assert(bytes.size() == static_cast<std::size_t>(n_tokens * hidden) * size_in_bytes(dtype));
}

void Embedding::row(std::int32_t token, std::span<float> to) const {
  assert(0 <= token && token < n_tokens_ && std::ssize(to) == hidden_);
  // The file does not align its tensors: through a block that is aligned.
  constexpr std::size_t kBlock = 1024;
  alignas(64) std::array<std::byte, kBlock * sizeof(float)> block;
  const std::size_t size = size_in_bytes(dtype_);
  const std::byte* from = bytes_.data() + static_cast<std::size_t>(token * hidden_) * size;
  for (std::size_t i = 0; i < to.size(); i += kBlock) {
    const std::size_t n = std::min(kBlock, to.size() - i);
    std::memcpy(block.data(), from + i * size, n * size);
    convert(block.data(), dtype_, to.data() + i, DType::kF32, n);
  }
}

}  // namespace tessera
