#include "tile/packed/read_panel.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>

#include "base/convert.h"
#include "base/half.h"
#include "base/multiversion.h"

namespace tessera::tile::cpu {

namespace {

constexpr std::int64_t kColumns = kPanelColumns;
constexpr std::int64_t kBlock = 8;  // units of 32 bits in a vector of AVX2

using Units = std::uint32_t __attribute__((vector_size(4 * kBlock), aligned(4), may_alias));

// Eight rows of eight units, transposed by pairs, by fours and by halves.
[[gnu::always_inline]] inline void transpose_block(const std::uint32_t* in, std::int64_t stride,
                                                   std::uint32_t* out) {
  Units r[kBlock];
  for (std::int64_t i = 0; i < kBlock; ++i) {
    r[i] = *reinterpret_cast<const Units*>(in + i * stride);
  }
  Units p[kBlock];
  for (int i = 0; i < kBlock; i += 2) {
    p[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    p[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  Units q[kBlock];
  for (int i = 0; i < kBlock; i += 4) {
    for (int e = 0; e < 2; ++e) {
      q[i + 2 * e] = __builtin_shufflevector(p[i + e], p[i + 2 + e], 0, 1, 8, 9, 4, 5, 12, 13);
      q[i + 2 * e + 1] =
          __builtin_shufflevector(p[i + e], p[i + 2 + e], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (std::int64_t i = 0; i < kBlock / 2; ++i) {
    *reinterpret_cast<Units*>(out + i * kColumns) =
        __builtin_shufflevector(q[i], q[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<Units*>(out + (i + 4) * kColumns) =
        __builtin_shufflevector(q[i], q[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// [32][kReadInputs] to [count][32]; count: a multiple of 8.
TESSERA_MULTIVERSION void transpose(const std::uint32_t* columns, std::int64_t count,
                                    std::uint32_t* units) {
  for (std::int64_t j = 0; j < count; j += kBlock) {
    for (std::int64_t c = 0; c < kColumns; c += kBlock) {
      transpose_block(columns + c * kReadInputs + j, kReadInputs, units + j * kColumns + c);
    }
  }
}

// Pairs of bf16, [count][32], to fp32, [2 count][32].
TESSERA_MULTIVERSION void widen_pairs(const std::uint32_t* units, std::int64_t count,
                                      float* values) {
  for (std::int64_t u = 0; u < count; ++u) {
    for (std::int64_t c = 0; c < kColumns; ++c) {
      const std::uint32_t unit = units[u * kColumns + c];
      values[2 * u * kColumns + c] = std::bit_cast<float>(unit << 16);
      values[(2 * u + 1) * kColumns + c] = std::bit_cast<float>(unit & 0xffff0000u);
    }
  }
}

// Single ones, [2 count][32], to pairs, [count][32].
TESSERA_MULTIVERSION void join_pairs(const std::uint16_t* rows, std::int64_t count,
                                     std::uint32_t* units) {
  for (std::int64_t u = 0; u < count; ++u) {
    for (std::int64_t c = 0; c < kColumns; ++c) {
      units[u * kColumns + c] =
          rows[2 * u * kColumns + c] | std::uint32_t{rows[(2 * u + 1) * kColumns + c]} << 16;
    }
  }
}

// Of fp16: whether any is infinite.
TESSERA_MULTIVERSION bool any_infinite(const std::uint16_t* values, std::int64_t count) {
  std::uint16_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) found |= (values[i] & 0x7fff) == 0x7c00;
  return found != 0;
}

const std::byte* element(const PackSource& source, std::int64_t i, std::int64_t j) {
  return source.data + static_cast<std::size_t>(i * source.n_stride + j * source.k_stride) *
                           size_in_bytes(source.dtype);
}

// Whether the columns of an input lie side by side, instead of the inputs of a column.
bool is_transposed(const PackSource& source) {
  return source.k_stride != 1;
}

// The inputs that are read next: 32 streams are more than the hardware follows.
void prefetch(const PackSource& source, std::int64_t i, std::int64_t j) {
  if (j + kReadInputs > source.k) return;
  const auto* from = reinterpret_cast<const char*>(element(source, i, j));
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(source.dtype)) * kReadInputs;
  for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at);
}

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Column by column, then transposed.
bool read_columns(const PackSource& source, std::int64_t panel, std::int64_t j, std::int64_t count,
                  DType as, std::uint32_t* units) {
  alignas(64) std::uint32_t columns[kColumns * kReadInputs];
  const std::size_t size = size_in_bytes(as);
  const std::int64_t per_unit = as == DType::kF32 ? 1 : 2;
  const std::int64_t n_units = rounded_up((count + per_unit - 1) / per_unit, kBlock);
  const bool narrows = as == DType::kF16 && source.dtype != DType::kF16;
  bool fits = true;
  for (std::int64_t c = 0; c < kColumns; ++c) {
    auto* column = reinterpret_cast<std::byte*>(columns + c * kReadInputs);
    const std::int64_t i = panel * kColumns + c;
    const std::int64_t filled = i < source.n ? count : 0;
    if (filled > 0) {
      prefetch(source, i, j + count);
      convert(element(source, i, j), source.dtype, column, as, static_cast<std::size_t>(filled));
      if (narrows) {
        fits = fits && !any_infinite(reinterpret_cast<const std::uint16_t*>(column), filled);
      }
    }
    std::memset(column + static_cast<std::size_t>(filled) * size, 0,
                static_cast<std::size_t>(n_units * per_unit - filled) * size);
  }
  transpose(columns, n_units, units);
  return fits;
}

// Input by input, where the columns lie side by side.
bool read_rows(const PackSource& source, std::int64_t panel, std::int64_t j, std::int64_t count,
               DType as, std::uint32_t* units) {
  assert(source.n_stride == 1);
  alignas(64) std::uint16_t halves[kColumns * kReadInputs];
  const std::size_t size = size_in_bytes(as);
  const std::int64_t first = panel * kColumns;
  const std::int64_t n_columns = std::min(kColumns, source.n - first);
  std::byte* rows = as == DType::kF32 ? reinterpret_cast<std::byte*>(units)
                                      : reinterpret_cast<std::byte*>(halves);
  const std::int64_t padded = rounded_up(count, kReadMultiple);
  const std::size_t row_bytes = static_cast<std::size_t>(kColumns) * size;
  if (n_columns < kColumns || padded > count) {
    std::memset(rows, 0, static_cast<std::size_t>(padded) * row_bytes);
  }
  for (std::int64_t r = 0; r < count; ++r) {
    convert(element(source, first, j + r), source.dtype,
            rows + static_cast<std::size_t>(r) * row_bytes, as,
            static_cast<std::size_t>(n_columns));
  }
  if (as == DType::kF32) return true;
  join_pairs(halves, padded / 2, units);
  return as != DType::kF16 || source.dtype == DType::kF16 ||
         !any_infinite(halves, count * kColumns);
}

}  // namespace

bool read_panel_units(const PackSource& source, std::int64_t panel, std::int64_t j,
                      std::int64_t count, DType as, std::uint32_t* units) {
  assert(count <= kReadInputs);
  return is_transposed(source) ? read_rows(source, panel, j, count, as, units)
                               : read_columns(source, panel, j, count, as, units);
}

void read_panel(const PackSource& source, std::int64_t panel, std::int64_t j, std::int64_t count,
                float* values) {
  alignas(64) std::uint32_t units[kColumns * kReadInputs];
  for (std::int64_t at = 0; at < count; at += kReadInputs) {
    const std::int64_t length = std::min(kReadInputs, count - at);
    float* out = values + at * kColumns;
    if (source.dtype == DType::kBF16 && !is_transposed(source)) {
      // Half the work: pairs are transposed before they are widened.
      read_columns(source, panel, j + at, length, DType::kBF16, units);
      widen_pairs(units, rounded_up(length, kReadMultiple) / 2, out);
    } else {
      read_panel_units(source, panel, j + at, length, DType::kF32,
                       reinterpret_cast<std::uint32_t*>(out));
    }
  }
}

TESSERA_MULTIVERSION void split_pairs(const std::uint32_t* units, std::int64_t count,
                                      std::uint16_t* rows) {
  for (std::int64_t u = 0; u < count; ++u) {
    for (std::int64_t c = 0; c < kColumns; ++c) {
      rows[2 * u * kColumns + c] = static_cast<std::uint16_t>(units[u * kColumns + c]);
      rows[(2 * u + 1) * kColumns + c] = static_cast<std::uint16_t>(units[u * kColumns + c] >> 16);
    }
  }
}

}  // namespace tessera::tile::cpu
