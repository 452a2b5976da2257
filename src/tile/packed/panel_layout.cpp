#include "tile/packed/panel_layout.h"

namespace tessera::tile::cpu {

std::string_view to_string(PanelLayout layout) {
  switch (layout) {
    case PanelLayout::kF32:
      return "f32";
    case PanelLayout::kBF16:
      return "bf16";
    case PanelLayout::kF16:
      return "f16";
    case PanelLayout::kI8:
      return "i8";
    case PanelLayout::kI8G32:
      return "i8g32";
    case PanelLayout::kI6G32:
      return "i6g32";
    case PanelLayout::kI4G32:
      return "i4g32";
  }
  return "unknown";
}

std::optional<PanelLayout> parse_panel_layout(std::string_view name) {
  for (PanelLayout layout : kPanelLayouts) {
    if (to_string(layout) == name) return layout;
  }
  return std::nullopt;
}

PanelLayout panel_layout(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return PanelLayout::kBF16;
    case DType::kF16:
      return PanelLayout::kF16;
    case DType::kF32:
      break;
  }
  return PanelLayout::kF32;
}

PanelLayout weight_layout(tile::Element element) {
  switch (element) {
    case tile::Element::kBF16:
      return PanelLayout::kBF16;
    case tile::Element::kF16:
      return PanelLayout::kF16;
    case tile::Element::kI8:
      return PanelLayout::kI8;
    case tile::Element::kI4:
      return PanelLayout::kI4G32;
    default:
      return PanelLayout::kF32;
  }
}

bool is_quantised(PanelLayout layout) {
  return layout == PanelLayout::kI8 || has_groups(layout);
}

bool has_groups(PanelLayout layout) {
  return layout == PanelLayout::kI8G32 || layout == PanelLayout::kI6G32 ||
         layout == PanelLayout::kI4G32;
}

std::size_t element_bytes(PanelLayout layout) {
  switch (layout) {
    case PanelLayout::kF32:
      return 4;
    case PanelLayout::kBF16:
    case PanelLayout::kF16:
      return 2;
    case PanelLayout::kI8:
    case PanelLayout::kI8G32:
    case PanelLayout::kI6G32:
    case PanelLayout::kI4G32:
      break;
  }
  return 1;
}

int k_interleave(PanelLayout layout) {
  switch (layout) {
    case PanelLayout::kF32:
    case PanelLayout::kF16:
      return 1;
    case PanelLayout::kBF16:
      return 2;
    case PanelLayout::kI8:
      return 4;
    case PanelLayout::kI8G32:
    case PanelLayout::kI6G32:
    case PanelLayout::kI4G32:
      break;
  }
  return kGroupInputs;
}

int stored_offset(PanelLayout layout) {
  if (layout == PanelLayout::kI4G32) return 8;
  if (layout == PanelLayout::kI6G32) return 32;
  return is_quantised(layout) ? 128 : 0;
}

std::size_t scale_bytes(PanelLayout layout) {
  return layout == PanelLayout::kI8 ? kPanelColumns * sizeof(float) : 0;
}

std::size_t panel_group_bytes(PanelLayout layout) {
  const auto elements = static_cast<std::size_t>(kPanelColumns * k_interleave(layout));
  if (layout == PanelLayout::kI4G32) return kGroupScaleBytes + elements / 2;
  if (layout == PanelLayout::kI6G32) return kGroupScaleBytes + elements / 2 + elements / 4;
  if (layout == PanelLayout::kI8G32) return kGroupScaleBytes + elements;
  return elements * element_bytes(layout);
}

}  // namespace tessera::tile::cpu
