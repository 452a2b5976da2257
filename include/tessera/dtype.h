// Element types of tensors.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tessera {

enum class DType { kF32, kBF16, kF16 };

std::size_t size_in_bytes(DType dtype);

// "fp32", "bf16", "fp16": the spelling of options and reports.
std::string_view to_string(DType dtype);
std::optional<DType> dtype_from_string(std::string_view name);

}  // namespace tessera
