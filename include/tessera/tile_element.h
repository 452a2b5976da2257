// Element types of the tile language, and its errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tessera/dtype.h>
#include <tessera/error.h>

namespace tessera::tile {

// What a tensor or a tile holds. kBool exists only as the result of a comparison, kI4 only in
// packed weights.
enum class Element : std::uint8_t { kF32, kBF16, kF16, kI8, kI32, kBool, kI4 };

std::size_t size_in_bytes(Element element);  // 0 for kI4, which never stands alone
std::string_view to_string(
    Element element);  // "fp32", "bf16", "fp16", "int8", "int32", "bool", "int4"
std::optional<Element> element_from_string(std::string_view name);
Element element_of(DType dtype);

inline bool is_float(Element e) {
  return e == Element::kF32 || e == Element::kBF16 || e == Element::kF16;
}

// The element types of packed weights.
inline bool is_weight_element(Element e) {
  return is_float(e) || e == Element::kI8 || e == Element::kI4;
}

// A place in a kernel's source.
struct Location {
  std::string file;
  int line = 0;

  bool known() const { return line > 0; }
  bool operator==(const Location&) const = default;
};

// A kernel that cannot be traced, compiled or called. number() is stable ("TL101";
// docs/tile-language.md lists them); what() is a sentence that starts with it and names the place,
// the operation and the shapes.
class KernelError : public Error {
 public:
  KernelError(std::string number, const std::string& sentence, Location location = {})
      : Error(ErrorCode::kInvalidArgument, sentence),
        number_(std::move(number)),
        location_(std::move(location)) {}

  const std::string& number() const noexcept { return number_; }
  const Location& location() const noexcept { return location_; }

 private:
  std::string number_;
  Location location_;
};

}  // namespace tessera::tile
