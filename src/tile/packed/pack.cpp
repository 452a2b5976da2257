#include "tile/packed/pack.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/convert.h"
#include "base/half.h"
#include "base/multiversion.h"
#include "tile/packed/quantise.h"

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

// [32][kChunk] to [length][32].
TESSERA_MULTIVERSION void transpose(const float* columns, std::int64_t length, float* values) {
  for (std::int64_t j = 0; j < length; ++j) {
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      values[j * kPanelColumns + c] = columns[c * kChunk + j];
    }
  }
}

// [quads * 4][32] to [quads][32][4].
TESSERA_MULTIVERSION void interleave_bytes(const std::uint8_t* bytes, std::int64_t quads,
                                           std::uint8_t* out) {
  for (std::int64_t q = 0; q < quads; ++q) {
    const std::uint8_t* in = bytes + q * 4 * kPanelColumns;
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      for (std::int64_t e = 0; e < 4; ++e) {
        out[(q * kPanelColumns + c) * 4 + e] = in[e * kPanelColumns + c];
      }
    }
  }
}

// The 32 inputs of a group, two to a byte (see panel_layout.h).
TESSERA_MULTIVERSION void interleave_nibbles(const std::uint8_t* bytes, std::uint8_t* out) {
  for (std::int64_t u = 0; u < kGroupInputs / 8; ++u) {
    const std::uint8_t* in = bytes + u * 8 * kPanelColumns;
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      for (std::int64_t e = 0; e < 4; ++e) {
        out[(u * kPanelColumns + c) * 4 + e] = static_cast<std::uint8_t>(
            in[e * kPanelColumns + c] | (in[(e + 4) * kPanelColumns + c] << 4));
      }
    }
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

// Inputs [j, j + count) of the panel's columns, side by side: [count][32], zeros beyond n.
void read_panel(const PackSource& source, std::int64_t panel, std::int64_t j, std::int64_t count,
                float* values) {
  float columns[kPanelColumns][kChunk];
  const std::int64_t first = panel * kPanelColumns;
  for (std::int64_t at = 0; at < count; at += kChunk) {
    const std::int64_t length = std::min(kChunk, count - at);
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      if (first + c < source.n) {
        read_column(source, first + c, j + at, length, columns[c]);
      } else {
        std::fill(columns[c], columns[c] + length, 0.0f);
      }
    }
    transpose(&columns[0][0], length, values + at * kPanelColumns);
  }
}

// One scale for a whole column.
void pack_i8_panel(const PackSource& source, const PackedShape& shape, std::int64_t panel,
                   std::byte* packed) {
  const std::int64_t padded = shape.k_groups() * 4;
  std::vector<float> values(static_cast<std::size_t>(padded * kPanelColumns));
  std::vector<std::uint8_t> bytes(values.size());
  read_panel(source, panel, 0, shape.k, values.data());
  auto* scales = reinterpret_cast<float*>(packed + shape.scale_offset());
  const IntegerRange& range = integer_range(shape.layout);
  fit_scales(values.data(), shape.k, range, scales);
  quantise(values.data(), padded, range, stored_offset(shape.layout), scales, bytes.data());
  interleave_bytes(bytes.data(), padded / 4, reinterpret_cast<std::uint8_t*>(packed));
}

// Scales for each group of inputs.
void pack_grouped_panel(const PackSource& source, const PackedShape& shape, std::int64_t panel,
                        std::byte* packed) {
  const IntegerRange& range = integer_range(shape.layout);
  float values[kChunk * kPanelColumns];
  for (std::int64_t j = 0; j < shape.k; j += kChunk) {
    const std::int64_t valid = std::min(kChunk, shape.k - j);
    read_panel(source, panel, j, valid, values);
    std::fill(values + valid * kPanelColumns, std::end(values), 0.0f);
    for (std::int64_t i = 0; i < valid; i += kGroupInputs) {
      const float* group = values + i * kPanelColumns;
      std::byte* out =
          packed + static_cast<std::size_t>((j + i) / kGroupInputs) * shape.group_bytes();
      float scales[kPanelColumns];
      fit_scales(group, kGroupInputs, range, scales);
      auto* stored = reinterpret_cast<f16*>(out);
      for (int c = 0; c < kPanelColumns; ++c) {
        stored[c] = to_f16(scales[c]);
        scales[c] = to_float(stored[c]);
      }
      std::uint8_t bytes[kGroupInputs * kPanelColumns];
      quantise(group, kGroupInputs, range, stored_offset(shape.layout), scales, bytes);
      auto* integers = reinterpret_cast<std::uint8_t*>(out + kGroupScaleBytes);
      if (shape.layout == PanelLayout::kI8G32) {
        interleave_bytes(bytes, kGroupInputs / 4, integers);
      } else {
        interleave_nibbles(bytes, integers);
      }
    }
  }
}

template <typename T, int kInterleave>
double packed_value(const std::byte* panel, std::int64_t column, std::int64_t j) {
  const auto* elements = reinterpret_cast<const T*>(panel);
  return to_float(
      elements[(j / kInterleave * kPanelColumns + column) * kInterleave + j % kInterleave]);
}

double grouped_value(const PackedShape& shape, const std::byte* panel, std::int64_t column,
                     std::int64_t j) {
  const std::byte* group = panel + static_cast<std::size_t>(j / kGroupInputs) * shape.group_bytes();
  const double scale = to_float(reinterpret_cast<const f16*>(group)[column]);
  const std::int64_t i = j % kGroupInputs;
  const std::byte* integers = group + kGroupScaleBytes;
  int stored = 0;
  if (shape.layout == PanelLayout::kI8G32) {
    stored = std::to_integer<int>(integers[(i / 4 * kPanelColumns + column) * 4 + i % 4]);
  } else {
    const int both = std::to_integer<int>(integers[(i / 8 * kPanelColumns + column) * 4 + i % 4]);
    stored = i % 8 < 4 ? both & 15 : both >> 4;
  }
  return scale * (stored - stored_offset(shape.layout));
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
    case PanelLayout::kI8G32:
    case PanelLayout::kI4G32:
      return grouped_value(shape, panel, column, j);
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
    case PanelLayout::kI8G32:
    case PanelLayout::kI4G32:
      return pack_grouped_panel(source, shape, panel, packed);
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
