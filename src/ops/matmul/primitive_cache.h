// oneDNN matrix products, compiled once per shape and kept by each worker.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include <dnnl.hpp>

#include <tessera/dtype.h>

namespace tessera::ops {

// A product of one thread: y [m, n] fp32 = x [m, k] * w^T, x and w of one element type.
struct MatmulShape {
  DType dtype;
  std::int64_t m, n, k;
  std::int64_t x_stride, w_n_stride, w_k_stride, y_stride;

  auto operator<=>(const MatmulShape&) const = default;
};

struct MatmulCache {
  MatmulCache();

  void run(const MatmulShape& shape, const void* x, const void* w, float* y);

  // Whether oneDNN multiplies bf16 on this CPU (it needs AVX-512).
  static bool has_bf16();

 private:
  struct Entry {
    dnnl::memory::desc x, w, y;
    dnnl::matmul primitive;
  };
  const Entry& entry(const MatmulShape& shape);

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<MatmulShape, Entry> entries_;
};

}  // namespace tessera::ops
