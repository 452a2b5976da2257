#include <tessera/weight_format.h>

#include "model/weight_layout.h"

namespace tessera {

using tile::cpu::PanelLayout;

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "fp32";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kF16:
      return "fp16";
    case WeightFormat::kInt8:
      return "int8";
    case WeightFormat::kInt4:
      return "int4";
    case WeightFormat::kMixed:
      return "mixed";
  }
  return {};
}

std::optional<WeightFormat> weight_format_from_string(std::string_view name) {
  for (WeightFormat format : kWeightFormats) {
    if (to_string(format) == name) return format;
  }
  return std::nullopt;
}

WeightFormat weight_format(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return WeightFormat::kF32;
    case DType::kBF16:
      return WeightFormat::kBF16;
    case DType::kF16:
      return WeightFormat::kF16;
  }
  return WeightFormat::kF32;
}

PanelLayout layout_of(WeightFormat format, WeightRole role) {
  switch (format) {
    case WeightFormat::kF32:
      return PanelLayout::kF32;
    case WeightFormat::kBF16:
      return PanelLayout::kBF16;
    case WeightFormat::kF16:
      return PanelLayout::kF16;
    case WeightFormat::kInt8:
      return PanelLayout::kI8G32;
    case WeightFormat::kInt4:
      return role == WeightRole::kExpert || role == WeightRole::kFeedForward ? PanelLayout::kI4G32
                                                                             : PanelLayout::kI6G32;
    case WeightFormat::kMixed:
      return role == WeightRole::kExpert ? PanelLayout::kI4G32 : PanelLayout::kI8G32;
  }
  return PanelLayout::kF32;
}

DType cache_dtype(WeightFormat format) {
  const bool wide = format == WeightFormat::kF32 || format == WeightFormat::kF16;
  return wide ? DType::kF32 : DType::kBF16;
}

}  // namespace tessera
