// Packing weights into panels (see panel_layout.h), once, when a model is loaded.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tessera/dtype.h>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "tile/packed/panel_layout.h"

namespace tessera::tile::cpu {

// A matrix [n, k] to pack: element (i, j) at data + (i * n_stride + j * k_stride) elements. One of
// the strides is 1.
struct PackSource {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t n_stride = 0;
  std::int64_t k_stride = 1;
};

// Owns a packed weight.
class PackedWeight {
 public:
  PackedWeight() = default;
  explicit PackedWeight(const PackedShape& shape) : shape_(shape), buffer_(shape.bytes()) {}

  const PackedShape& shape() const { return shape_; }
  std::byte* data() { return buffer_.data(); }
  const std::byte* data() const { return buffer_.data(); }
  std::byte* panel(std::int64_t index) {
    return buffer_.data() + static_cast<std::size_t>(index) * shape_.panel_bytes();
  }
  const std::byte* panel(std::int64_t index) const {
    return const_cast<PackedWeight*>(this)->panel(index);
  }

 private:
  PackedShape shape_;
  Buffer buffer_;
};

// Converts or quantises (to nearest even) and packs, panels in parallel.
PackedWeight pack(const PackSource& source, PanelLayout layout, ThreadPool& pool);

// Columns [32 * panel, 32 * panel + 32) into one panel's memory, aligned to 64; columns beyond n
// are filled with zeros. False where the layout cannot hold a value: one that is NaN or infinite
// where it quantises, or, in another type, beyond the largest fp16; the panel is of no use then.
bool pack_panel(const PackSource& source, PanelLayout layout, std::int64_t panel,
                std::byte* packed);

// The exact values of a panel, as row-major [n, k] without the padding; `rows` is that of column 0
// of the weight.
void unpack_panel(const PackedShape& shape, std::int64_t panel, const std::byte* packed,
                  double* rows);
// Of all panels of a packed weight.
void unpack(const PackedShape& shape, const std::byte* packed, double* rows);

}  // namespace tessera::tile::cpu
