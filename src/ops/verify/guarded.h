// Memory for the tensors of a test, with guards on both sides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/buffer.h"

namespace tessera::ops::verify {

// All bytes are 0xff at first: a NaN in every element type. Reading a guard, or an element that
// nobody wrote, spoils the result; writing a guard shows.
class Guarded {
 public:
  Guarded() = default;
  explicit Guarded(std::size_t n_bytes) : memory_(n_bytes + 2 * kGuardBytes), n_bytes_(n_bytes) {
    poison();
  }

  std::byte* data() { return memory_.data() + kGuardBytes; }
  const std::byte* data() const { return memory_.data() + kGuardBytes; }
  std::span<const std::byte> bytes() const { return {data(), n_bytes_}; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data());
  }

  void poison() {
    if (memory_.size() != 0) std::memset(memory_.data(), 0xff, memory_.size());
  }
  bool intact() const {
    const auto is_poison = [](std::span<const std::byte> guard) {
      return std::ranges::all_of(guard, [](std::byte b) { return b == std::byte{0xff}; });
    };
    return memory_.size() == 0 || (is_poison({memory_.data(), kGuardBytes}) &&
                                   is_poison({data() + n_bytes_, kGuardBytes}));
  }

 private:
  static constexpr std::size_t kGuardBytes = 256;  // four cache lines; keeps data() aligned

  Buffer memory_;
  std::size_t n_bytes_ = 0;
};

}  // namespace tessera::ops::verify
