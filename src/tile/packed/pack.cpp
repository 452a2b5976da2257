#include "tile/packed/pack.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/convert.h"
#include "base/half.h"

namespace tessera::tile::cpu {

namespace {

// Inputs packed at a time: 32 columns of them, in the target's type, stay in the first-level cache.
constexpr std::int64_t kChunk = 128;

template <typename T>
constexpr DType kDTypeOf = DType::kF32;
template <>
constexpr DType kDTypeOf<bf16> = DType::kBF16;
template <>
constexpr DType kDTypeOf<f16> = DType::kF16;

// Elements [j, j + count) of output column i, converted to T.
template <typename T>
void read_column(const PackSource& source, std::int64_t i, std::int64_t j, std::int64_t count,
                 T* out) {
  const std::size_t size = size_in_bytes(source.dtype);
  const std::byte* from =
      source.data + static_cast<std::size_t>(i * source.n_stride + j * source.k_stride) * size;
  if (source.k_stride == 1) {
    convert(from, source.dtype, out, kDTypeOf<T>, static_cast<std::size_t>(count));
    return;
  }
  for (std::int64_t e = 0; e < count; ++e) {
    convert(from + static_cast<std::size_t>(e * source.k_stride) * size, source.dtype, out + e,
            kDTypeOf<T>, 1);
  }
}

template <typename T, int kInterleave>
void pack_panel_as(const PackSource& source, const PackedShape& shape, std::int64_t panel,
                   T* packed) {
  T columns[kPanelColumns][kChunk];
  const std::int64_t first = panel * kPanelColumns;
  const std::int64_t n_columns = std::min<std::int64_t>(kPanelColumns, shape.n - first);
  const std::int64_t k_padded = shape.k_groups() * kInterleave;
  for (std::int64_t j = 0; j < k_padded; j += kChunk) {
    const std::int64_t padded = std::min(kChunk, k_padded - j);
    const std::int64_t valid = std::min(padded, shape.k - j);
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      const std::int64_t count = c < n_columns ? valid : 0;
      if (count > 0) read_column(source, first + c, j, count, columns[c]);
      std::fill(columns[c] + count, columns[c] + padded, T{});
    }
    T* out = packed + j * kPanelColumns;
    for (std::int64_t group = 0; group < padded / kInterleave; ++group) {
      for (std::int64_t c = 0; c < kPanelColumns; ++c) {
        for (int e = 0; e < kInterleave; ++e) *out++ = columns[c][group * kInterleave + e];
      }
    }
  }
}

// Quantises a whole column: max |w| becomes 127.
void pack_i8_panel(const PackSource& source, const PackedShape& shape, std::int64_t panel,
                   std::byte* packed) {
  constexpr int kInterleave = 4;
  auto* out = reinterpret_cast<std::uint8_t*>(packed);
  auto* scales = reinterpret_cast<float*>(packed + shape.scale_offset());
  std::fill(out, out + shape.scale_offset(), std::uint8_t{128});
  std::vector<float> column(static_cast<std::size_t>(shape.k));
  for (std::int64_t c = 0; c < kPanelColumns; ++c) {
    const std::int64_t i = panel * kPanelColumns + c;
    scales[c] = 0;
    if (i >= shape.n) continue;
    read_column(source, i, 0, shape.k, column.data());
    float largest = 0;
    for (float value : column) largest = std::max(largest, std::abs(value));
    if (largest == 0) continue;
    scales[c] = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (std::int64_t j = 0; j < shape.k; ++j) {
      const float quantised = std::nearbyint(column[static_cast<std::size_t>(j)] * inverse);
      out[(j / kInterleave * kPanelColumns + c) * kInterleave + j % kInterleave] =
          static_cast<std::uint8_t>(static_cast<int>(std::clamp(quantised, -127.0f, 127.0f)) + 128);
    }
  }
}

template <typename T, int kInterleave>
double packed_value(const std::byte* panel, std::int64_t column, std::int64_t j) {
  const auto* elements = reinterpret_cast<const T*>(panel);
  return to_float(
      elements[(j / kInterleave * kPanelColumns + column) * kInterleave + j % kInterleave]);
}

double packed_value(const PackedShape& shape, const std::byte* panel, std::int64_t column,
                    std::int64_t j) {
  switch (shape.layout) {
    case PanelLayout::kF32:
      return packed_value<float, 1>(panel, column, j);
    case PanelLayout::kBF16:
      return packed_value<bf16, 2>(panel, column, j);
    case PanelLayout::kF16:
      return packed_value<f16, 1>(panel, column, j);
    case PanelLayout::kI8:
      break;
  }
  const int stored = std::to_integer<int>(panel[(j / 4 * kPanelColumns + column) * 4 + j % 4]);
  const auto* scales = reinterpret_cast<const float*>(panel + shape.scale_offset());
  return static_cast<double>(stored - 128) * static_cast<double>(scales[column]);
}

}  // namespace

void pack_panel(const PackSource& source, PanelLayout layout, std::int64_t panel,
                std::byte* packed) {
  const PackedShape shape{layout, source.n, source.k};
  switch (layout) {
    case PanelLayout::kF32:
      return pack_panel_as<float, 1>(source, shape, panel, reinterpret_cast<float*>(packed));
    case PanelLayout::kBF16:
      return pack_panel_as<bf16, 2>(source, shape, panel, reinterpret_cast<bf16*>(packed));
    case PanelLayout::kF16:
      return pack_panel_as<f16, 1>(source, shape, panel, reinterpret_cast<f16*>(packed));
    case PanelLayout::kI8:
      return pack_i8_panel(source, shape, panel, packed);
  }
}

PackedWeight pack(const PackSource& source, PanelLayout layout, ThreadPool& pool) {
  PackedWeight weight(PackedShape{layout, source.n, source.k});
  pool.parallel_for(weight.shape().panels(), [&](std::int64_t panel, int) {
    pack_panel(source, layout, panel, weight.panel(panel));
  });
  return weight;
}

void unpack_panel(const PackedShape& shape, std::int64_t panel, const std::byte* packed,
                  double* rows) {
  const std::int64_t end = std::min<std::int64_t>((panel + 1) * kPanelColumns, shape.n);
  for (std::int64_t i = panel * kPanelColumns; i < end; ++i) {
    for (std::int64_t j = 0; j < shape.k; ++j) {
      rows[i * shape.k + j] = packed_value(shape, packed, i % kPanelColumns, j);
    }
  }
}

void unpack(const PackedShape& shape, const std::byte* packed, double* rows) {
  for (std::int64_t panel = 0; panel < shape.panels(); ++panel) {
    unpack_panel(shape, panel, packed + static_cast<std::size_t>(panel) * shape.panel_bytes(),
                 rows);
  }
}

}  // namespace tessera::tile::cpu
