#include "io/safetensors_dtype.h"

#include <array>

namespace tessera {

namespace {

struct Row {
  SafetensorsDType dtype;
  std::string_view name;
  std::size_t bits;
};

using enum SafetensorsDType;

// In the order of the enum: the functions below index it.
constexpr std::array kRows = {
    Row{kBool, "BOOL", 8},
    Row{kF4, "F4", 4},
    Row{kF6E2M3, "F6_E2M3", 6},
    Row{kF6E3M2, "F6_E3M2", 6},
    Row{kU8, "U8", 8},
    Row{kI8, "I8", 8},
    Row{kF8E5M2, "F8_E5M2", 8},
    Row{kF8E4M3, "F8_E4M3", 8},
    Row{kF8E8M0, "F8_E8M0", 8},
    Row{kF8E4M3FNUZ, "F8_E4M3FNUZ", 8},
    Row{kF8E5M2FNUZ, "F8_E5M2FNUZ", 8},
    Row{kI16, "I16", 16},
    Row{kU16, "U16", 16},
    Row{kF16, "F16", 16},
    Row{kBF16, "BF16", 16},
    Row{kI32, "I32", 32},
    Row{kU32, "U32", 32},
    Row{kF32, "F32", 32},
    Row{kC64, "C64", 64},
    Row{kF64, "F64", 64},
    Row{kI64, "I64", 64},
    Row{kU64, "U64", 64},
};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].dtype != static_cast<SafetensorsDType>(i)) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

}  // namespace

std::size_t size_in_bits(SafetensorsDType dtype) {
  return kRows[static_cast<std::size_t>(dtype)].bits;
}

std::string_view to_string(SafetensorsDType dtype) {
  return kRows[static_cast<std::size_t>(dtype)].name;
}

std::optional<SafetensorsDType> safetensors_dtype_from_string(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> compute_dtype(SafetensorsDType dtype) {
  switch (dtype) {
    case kF32:
      return DType::kF32;
    case kBF16:
      return DType::kBF16;
    case kF16:
      return DType::kF16;
    default:
      return std::nullopt;
  }
}

SafetensorsDType safetensors_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kF32;
    case DType::kBF16:
      return kBF16;
    case DType::kF16:
      return kF16;
  }
  return kF32;
}

}  // namespace tessera
