// How a packed weight lies in memory. The emitted matmul loops and the packer both follow this
// file.
//
// A weight maps k inputs to n outputs. It is cut into panels of 32 output columns (two AVX-512
// registers, four of AVX2); within a panel the inputs run in order, and the columns lie side by
// side, so that one pass over a panel reads memory front to back:
//
//   kF32    [n/32][k][32]       fp32
//   kBF16   [n/32][k/2][32][2]  bf16, two inputs of a column adjacent: the operand of a bf16 dot
//   product kF16    [n/32][k][32]       fp16, widened while loading
//
// Sizes that are no multiple (n of 32, k of the interleave) are padded with zeros. Panels are
// aligned to 64 bytes. Quantised layouts (int8 [n/32][k/4][32][4], int4 groups) will be further
// values here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <tessera/dtype.h>

namespace tessera::tile::cpu {

enum class PanelLayout { kF32, kBF16, kF16, kI8 };
inline constexpr PanelLayout kPanelLayouts[] = {PanelLayout::kF32, PanelLayout::kBF16,
                                                PanelLayout::kF16, PanelLayout::kI8};

inline constexpr int kPanelColumns = 32;

// "f32", "bf16", "f16", "i8".
std::string_view to_string(PanelLayout layout);
std::optional<PanelLayout> parse_panel_layout(std::string_view name);

// The layout for a weight of this element type.
PanelLayout panel_layout(DType dtype);

// Bytes of one element.
std::size_t element_bytes(PanelLayout layout);

// Inputs that lie adjacent for one column.
int k_interleave(PanelLayout layout);

// Bytes behind a panel's weights: the scales of a quantised layout.
std::size_t scale_bytes(PanelLayout layout);

struct PackedShape {
  PanelLayout layout = PanelLayout::kF32;
  std::int64_t n = 0;  // output columns
  std::int64_t k = 0;  // inputs

  std::int64_t panels() const { return (n + kPanelColumns - 1) / kPanelColumns; }
  // k in units of the interleave, rounded up.
  std::int64_t k_groups() const { return (k + k_interleave(layout) - 1) / k_interleave(layout); }
  // Bytes of one k group of one panel: what the emitted loop advances by.
  std::size_t group_bytes() const {
    return static_cast<std::size_t>(kPanelColumns * k_interleave(layout)) * element_bytes(layout);
  }
  // Where the scales begin, for layouts that have them.
  std::size_t scale_offset() const { return static_cast<std::size_t>(k_groups()) * group_bytes(); }
  std::size_t panel_bytes() const { return scale_offset() + scale_bytes(layout); }
  std::size_t bytes() const { return static_cast<std::size_t>(panels()) * panel_bytes(); }
};

}  // namespace tessera::tile::cpu
