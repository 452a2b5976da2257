#include <tessera/dtype.h>

namespace tessera {

std::size_t size_in_bytes(DType dtype) {
  return dtype == DType::kF32 ? 4 : 2;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
  }
  return "unknown";
}

std::optional<DType> dtype_from_string(std::string_view name) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (name == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace tessera
