// How a model keeps its matrices in memory.
#pragma once

#include <optional>
#include <string_view>

#include <tessera/dtype.h>

namespace tessera {

// Norms, biases and routers are fp32 in every format. int8 and int4 have a scale for every 32
// inputs of an output; docs/performance.md has the accuracy and the speed of each.
enum class WeightFormat {
  kF32,
  kBF16,
  kF16,
  kInt8,   // 8.5 bits a weight
  kInt4,   // feed-forward networks 4.5 bits a weight, attention and the output head 6.5
  kMixed,  // routed experts 4.5 bits a weight, everything else 8.5
};
inline constexpr WeightFormat kWeightFormats[] = {WeightFormat::kF32,  WeightFormat::kBF16,
                                                  WeightFormat::kF16,  WeightFormat::kInt8,
                                                  WeightFormat::kInt4, WeightFormat::kMixed};

// "fp32", "bf16", "fp16", "int8", "int4", "mixed": the spelling of options and reports.
std::string_view to_string(WeightFormat format);
std::optional<WeightFormat> weight_format_from_string(std::string_view name);

// The format that keeps weights of this element type as they are.
WeightFormat weight_format(DType dtype);

}  // namespace tessera
