// How a packed weight lies in memory. The emitted matmul loops and the packer both follow this
// file.
//
// A weight maps k inputs to n outputs. It is cut into panels of 32 output columns (two AVX-512
// registers, four of AVX2); within a panel the inputs run in order, and the columns lie side by
// side, so that one pass over a panel reads memory front to back:
//
//   kF32    [n/32][k][32]          fp32
//   kBF16   [n/32][k/2][32][2]     bf16, two inputs of a column adjacent: the operand of a bf16 dot
//                                  product
//   kF16    [n/32][k][32]          fp16, widened while loading
//   kI8     [n/32]{ [k/4][32][4] bytes, then [32] scales (fp32) }
//   kI8G32  [n/32][k/32]{ [32] scales (fp16), then [8][32][4] bytes }
//   kI6G32  [n/32][k/32]{ [32] scales (fp16), then twice [32][4] bytes of four pairs of bits and
//                         [2][32][4] bytes of two nibbles }
//   kI4G32  [n/32][k/32]{ [32] scales (fp16), then [4][32][4] bytes of two nibbles }
//
// Quantised weights are integers times a scale: one for each column (kI8), or one for each column
// and group of 32 inputs, whose scales lie before the integers. A byte holds integer + 128, of four
// inputs of a column side by side: the operand of a byte dot product. A byte of kI4G32 holds
// integer + 8 of input 8 u + e in its low half and of input 8 u + 4 + e in the high one, for byte e
// of unit u. kI6G32 has the low four bits of integer + 32 like that; byte e before the units 2 v
// and 2 v + 1 holds the high two of inputs 16 v + e, 16 v + 4 + e, 16 v + 8 + e and 16 v + 12 + e,
// from the lowest bits on. (All in the order of use: with the pairs behind the nibbles, a row took
// a third longer.)
//
// Sizes that are no multiple (n of 32, k of the interleave) are padded with zeros. Panels are
// aligned to 64 bytes, groups with scales too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <tessera/dtype.h>
#include <tessera/tile_element.h>

namespace tessera::tile::cpu {

enum class PanelLayout { kF32, kBF16, kF16, kI8, kI8G32, kI6G32, kI4G32 };
inline constexpr PanelLayout kPanelLayouts[] = {
    PanelLayout::kF32,   PanelLayout::kBF16,  PanelLayout::kF16,  PanelLayout::kI8,
    PanelLayout::kI8G32, PanelLayout::kI6G32, PanelLayout::kI4G32};

inline constexpr int kPanelColumns = 32;
// Inputs that share a scale in the layouts with groups.
inline constexpr int kGroupInputs = 32;

// "f32", "bf16", "f16", "i8", "i8g32", "i6g32", "i4g32".
std::string_view to_string(PanelLayout layout);
std::optional<PanelLayout> parse_panel_layout(std::string_view name);

// The layout for a weight of this element type.
PanelLayout panel_layout(DType dtype);
// That of a tile kernel's packed weight: int8 is kI8, int4 is kI4G32.
PanelLayout weight_layout(tile::Element element);

bool is_quantised(PanelLayout layout);
// Whether each group of inputs has scales of its own.
bool has_groups(PanelLayout layout);

// Bytes of one element; 1 for kI6G32 and kI4G32, whose bytes hold parts of several.
std::size_t element_bytes(PanelLayout layout);

// Inputs that lie together for one column: the unit in which k is padded.
int k_interleave(PanelLayout layout);

// What is added to an integer to store it.
int stored_offset(PanelLayout layout);

// Bytes behind a panel's weights: the scales of kI8.
std::size_t scale_bytes(PanelLayout layout);

// Bytes of one k group of one panel, what the emitted loop advances by.
std::size_t panel_group_bytes(PanelLayout layout);

// Bytes of a group's scales, which lie before its integers.
inline constexpr std::size_t kGroupScaleBytes = kPanelColumns * 2;

struct PackedShape {
  PanelLayout layout = PanelLayout::kF32;
  std::int64_t n = 0;  // output columns
  std::int64_t k = 0;  // inputs

  std::int64_t panels() const { return (n + kPanelColumns - 1) / kPanelColumns; }
  // k in units of the interleave, rounded up.
  std::int64_t k_groups() const { return (k + k_interleave(layout) - 1) / k_interleave(layout); }
  std::size_t group_bytes() const { return panel_group_bytes(layout); }
  // Where the scales begin, for kI8.
  std::size_t scale_offset() const { return static_cast<std::size_t>(k_groups()) * group_bytes(); }
  std::size_t panel_bytes() const { return scale_offset() + scale_bytes(layout); }
  std::size_t bytes() const { return static_cast<std::size_t>(panels()) * panel_bytes(); }
};

}  // namespace tessera::tile::cpu
