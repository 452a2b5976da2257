// Weights: matrices of any element type, as the checkpoint stores them.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include <tessera/dtype.h>

#include "base/buffer.h"

namespace tessera::ops {

// A matrix [n, k] that maps k inputs to n outputs; element (i, j) at i * n_stride + j * k_stride.
// One of the strides is 1.
struct WeightView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t n_stride = 0;
  std::int64_t k_stride = 0;

  const std::byte* at(std::int64_t i, std::int64_t j) const {
    return data + static_cast<std::size_t>(i * n_stride + j * k_stride) * size_in_bytes(dtype);
  }
  // Outputs [i, i + count).
  WeightView outputs(std::int64_t i, std::int64_t count) const {
    assert(0 <= i && i + count <= n);
    return {at(i, 0), dtype, count, k, n_stride, k_stride};
  }
  // The same numbers as a map from n inputs to k outputs.
  WeightView transposed() const { return {data, dtype, k, n, k_stride, n_stride}; }
};

// Owns a matrix [n, k] stored row by row, or nothing (n = 0).
class Weight {
 public:
  Weight() = default;
  Weight(DType dtype, std::int64_t n, std::int64_t k)
      : dtype_(dtype),
        n_(n),
        k_(k),
        buffer_(static_cast<std::size_t>(n * k) * size_in_bytes(dtype)) {}

  bool empty() const { return n_ == 0; }
  DType dtype() const { return dtype_; }
  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  std::size_t bytes() const { return buffer_.size(); }
  WeightView view() const { return {buffer_.data(), dtype_, n_, k_, k_, 1}; }
  std::byte* row(std::int64_t i) {
    return buffer_.data() + static_cast<std::size_t>(i * k_) * size_in_bytes(dtype_);
  }
  const std::byte* row(std::int64_t i) const { return const_cast<Weight*>(this)->row(i); }
  // A vector kept in fp32 (norm weights, biases): [1, k].
  const float* floats() const {
    assert(dtype_ == DType::kF32);
    return reinterpret_cast<const float*>(buffer_.data());
  }

 private:
  DType dtype_ = DType::kF32;
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  Buffer buffer_;
};

}  // namespace tessera::ops
