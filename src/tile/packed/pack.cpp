#include "tile/packed/pack.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "base/convert.h"
#include "base/half.h"
#include "base/multiversion.h"
#include "tile/packed/quantise.h"
#include "tile/packed/read_panel.h"

namespace tessera::tile::cpu {

namespace {

constexpr std::int64_t kChunk = kReadInputs;
constexpr int kUnitBytes = kPanelColumns * 4;

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

// One unit, [32][4] bytes, of kInputs inputs: their kBits bits from bit `first` on, those of inputs
// four apart in one byte.
template <int kInputs, int kBits>
void interleave_bits(const std::uint8_t* bytes, int first, std::uint8_t* out) {
  constexpr int kMask = (1 << kBits) - 1;
  for (std::int64_t c = 0; c < kPanelColumns; ++c) {
    for (std::int64_t e = 0; e < 4; ++e) {
      int byte = 0;
      for (int q = 0; q < kInputs / 4; ++q) {
        byte |= (bytes[(q * 4 + e) * kPanelColumns + c] >> first & kMask) << (kBits * q);
      }
      out[c * 4 + e] = static_cast<std::uint8_t>(byte);
    }
  }
}

// The 32 inputs of a group (see panel_layout.h).
TESSERA_MULTIVERSION void interleave_nibbles(const std::uint8_t* bytes, std::uint8_t* out) {
  for (int u = 0; u < kGroupInputs / 8; ++u) {
    interleave_bits<8, 4>(bytes + u * 8 * kPanelColumns, 0, out + u * kUnitBytes);
  }
}
TESSERA_MULTIVERSION void interleave_six_bits(const std::uint8_t* bytes, std::uint8_t* out) {
  for (int v = 0; v < kGroupInputs / 16; ++v) {
    const std::uint8_t* in = bytes + v * 16 * kPanelColumns;
    interleave_bits<16, 2>(in, 4, out);
    interleave_bits<8, 4>(in, 0, out + kUnitBytes);
    interleave_bits<8, 4>(in + 8 * kPanelColumns, 0, out + 2 * kUnitBytes);
    out += 3 * kUnitBytes;
  }
}

// fp32, and bf16 in pairs: the units as they are read.
void pack_units_panel(const PackSource& source, const PackedShape& shape, std::int64_t panel,
                      DType as, std::byte* packed) {
  alignas(64) std::uint32_t units[kChunk * kPanelColumns];
  const std::int64_t per_unit = as == DType::kF32 ? 1 : 2;
  for (std::int64_t j = 0; j < shape.k; j += kChunk) {
    const std::int64_t count = std::min(kChunk, shape.k - j);
    read_panel_units(source, panel, j, count, as, units);
    const auto n_units = static_cast<std::size_t>((count + per_unit - 1) / per_unit);
    constexpr std::size_t kRowBytes = kPanelColumns * sizeof(std::uint32_t);
    std::memcpy(packed + static_cast<std::size_t>(j / per_unit) * kRowBytes, units,
                n_units * kRowBytes);
  }
}

bool pack_f16_panel(const PackSource& source, const PackedShape& shape, std::int64_t panel,
                    std::byte* packed) {
  alignas(64) std::uint32_t units[kChunk / 2 * kPanelColumns];
  alignas(64) std::uint16_t rows[kChunk * kPanelColumns];
  bool fits = true;
  for (std::int64_t j = 0; j < shape.k; j += kChunk) {
    const std::int64_t count = std::min(kChunk, shape.k - j);
    fits = read_panel_units(source, panel, j, count, DType::kF16, units) && fits;
    split_pairs(units, (count + 1) / 2, rows);
    constexpr std::size_t kRowBytes = kPanelColumns * sizeof(std::uint16_t);
    std::memcpy(packed + static_cast<std::size_t>(j) * kRowBytes, rows,
                static_cast<std::size_t>(count) * kRowBytes);
  }
  return fits;
}

// One scale for a whole column.
bool pack_i8_panel(const PackSource& source, const PackedShape& shape, std::int64_t panel,
                   std::byte* packed) {
  const std::int64_t padded = shape.k_groups() * 4;
  const std::int64_t read = (shape.k + kReadMultiple - 1) / kReadMultiple * kReadMultiple;
  std::vector<float> values(static_cast<std::size_t>(read * kPanelColumns));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(padded * kPanelColumns));
  read_panel(source, panel, 0, shape.k, values.data());
  auto* scales = reinterpret_cast<float*>(packed + shape.scale_offset());
  const IntegerRange& range = integer_range(shape.layout);
  const bool finite = fit_scales(values.data(), shape.k, range, scales);
  quantise(values.data(), padded, range, stored_offset(shape.layout), scales, bytes.data());
  interleave_bytes(bytes.data(), padded / 4, reinterpret_cast<std::uint8_t*>(packed));
  return finite;
}

// Scales for each group of inputs.
bool pack_grouped_panel(const PackSource& source, const PackedShape& shape, std::int64_t panel,
                        std::byte* packed) {
  const IntegerRange& range = integer_range(shape.layout);
  alignas(64) float values[kChunk * kPanelColumns];
  bool finite = true;
  for (std::int64_t j = 0; j < shape.k; j += kChunk) {
    const std::int64_t valid = std::min(kChunk, shape.k - j);
    read_panel(source, panel, j, valid, values);
    std::fill(values + valid * kPanelColumns, std::end(values), 0.0f);
    for (std::int64_t i = 0; i < valid; i += kGroupInputs) {
      const float* group = values + i * kPanelColumns;
      std::byte* out =
          packed + static_cast<std::size_t>((j + i) / kGroupInputs) * shape.group_bytes();
      float scales[kPanelColumns];
      finite = fit_scales(group, kGroupInputs, range, scales) && finite;
      auto* stored = reinterpret_cast<f16*>(out);
      convert(std::span<const float>(scales), std::span(stored, kPanelColumns));
      convert(std::span<const f16>(stored, kPanelColumns), std::span<float>(scales));
      std::uint8_t bytes[kGroupInputs * kPanelColumns];
      quantise(group, kGroupInputs, range, stored_offset(shape.layout), scales, bytes);
      auto* integers = reinterpret_cast<std::uint8_t*>(out + kGroupScaleBytes);
      if (shape.layout == PanelLayout::kI8G32) {
        interleave_bytes(bytes, kGroupInputs / 4, integers);
      } else if (shape.layout == PanelLayout::kI6G32) {
        interleave_six_bits(bytes, integers);
      } else {
        interleave_nibbles(bytes, integers);
      }
    }
  }
  return finite;
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
  // The byte of this column and input in a unit of the group.
  const auto byte = [&](std::int64_t unit) {
    return std::to_integer<int>(integers[(unit * kPanelColumns + column) * 4 + i % 4]);
  };
  const auto nibble = [&](std::int64_t unit) { return byte(unit) >> (i % 8 < 4 ? 0 : 4) & 15; };
  int stored = 0;
  if (shape.layout == PanelLayout::kI8G32) {
    stored = byte(i / 4);
  } else if (shape.layout == PanelLayout::kI6G32) {
    const std::int64_t unit = i / 16 * 3;
    stored = nibble(unit + 1 + i / 8 % 2) | (byte(unit) >> (i / 4 % 4 * 2) & 3) << 4;
  } else {
    stored = nibble(i / 8);
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
    case PanelLayout::kI6G32:
    case PanelLayout::kI4G32:
      return grouped_value(shape, panel, column, j);
  }
  const int stored = std::to_integer<int>(panel[(j / 4 * kPanelColumns + column) * 4 + j % 4]);
  const auto* scales = reinterpret_cast<const float*>(panel + shape.scale_offset());
  return static_cast<double>(stored - 128) * static_cast<double>(scales[column]);
}

}  // namespace

bool pack_panel(const PackSource& source, PanelLayout layout, std::int64_t panel,
                std::byte* packed) {
  const PackedShape shape{layout, source.n, source.k};
  switch (layout) {
    case PanelLayout::kF32:
      pack_units_panel(source, shape, panel, DType::kF32, packed);
      return true;
    case PanelLayout::kBF16:
      pack_units_panel(source, shape, panel, DType::kBF16, packed);
      return true;
    case PanelLayout::kF16:
      return pack_f16_panel(source, shape, panel, packed);
    case PanelLayout::kI8:
      return pack_i8_panel(source, shape, panel, packed);
    case PanelLayout::kI8G32:
    case PanelLayout::kI6G32:
    case PanelLayout::kI4G32:
      break;
  }
  return pack_grouped_panel(source, shape, panel, packed);
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
