// What attention may read of a paged cache.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::ops {

// What a query may see: the first `length` tokens (1 or more) of the sequence kept in `pages`.
struct VisibleTokens {
  std::span<const std::int32_t> pages;
  std::int64_t length = 0;
};

}  // namespace tessera::ops
