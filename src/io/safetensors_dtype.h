// The element types that a safetensors file can name.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <tessera/dtype.h>

namespace tessera {

// kF64 is written "F64" in the file, and so on. Most are only carried: see compute_dtype().
enum class SafetensorsDType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::size_t size_in_bits(SafetensorsDType dtype);
std::string_view to_string(SafetensorsDType dtype);  // as in the file: "BF16"
std::optional<SafetensorsDType> safetensors_dtype_from_string(std::string_view name);

// The same type as one that Tessera computes with: F32, BF16 and F16; no value for all others.
std::optional<DType> compute_dtype(SafetensorsDType dtype);
SafetensorsDType safetensors_dtype(DType dtype);

}  // namespace tessera
