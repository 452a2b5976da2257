// Reading the columns of a panel from a weight, in the order in which the layouts keep them: all 32
// columns of an input side by side.
#pragma once

#include <cstdint>

#include <tessera/dtype.h>

#include "tile/packed/pack.h"

namespace tessera::tile::cpu {

// Inputs read at a time: 32 columns of them stay in the first-level cache.
inline constexpr std::int64_t kReadInputs = 128;
// Rows are written in multiples of this many: the arrays below have room for the last ones, which
// are zeros.
inline constexpr std::int64_t kReadMultiple = 16;

// Inputs [j, j + count) of the panel's columns, [count][32]; zeros for columns beyond n. Any count.
void read_panel(const PackSource& source, std::int64_t panel, std::int64_t j, std::int64_t count,
                float* values);

// The same for count <= kReadInputs, converted to `as` (to nearest even), in units of 32 bits: one
// fp32 value, or inputs 2 u and 2 u + 1 in the low and the high half. [count or (count + 1) /
// 2][32]
//
// False where a value of a wider type became infinite, or was.
bool read_panel_units(const PackSource& source, std::int64_t panel, std::int64_t j,
                      std::int64_t count, DType as, std::uint32_t* units);

// [count][32] pairs of 16 bits to [2 count][32] single ones.
void split_pairs(const std::uint32_t* units, std::int64_t count, std::uint16_t* rows);

}  // namespace tessera::tile::cpu
