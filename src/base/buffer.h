// Owned memory for tensors.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace tessera {

// A fixed-size block aligned to 64 bytes (a cache line, one AVX-512 register). From 2 MB on it is
// mapped by itself and advised to use huge pages: first touch of 4 KB pages runs at a quarter of
// the speed. The content starts undefined for small blocks and zero for mapped ones; do not rely on
// it.
class Buffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  Buffer() = default;
  explicit Buffer(std::size_t bytes);  // throws Error(kOutOfMemory)
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

  // The block as elements of T, as many as fit.
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tessera
