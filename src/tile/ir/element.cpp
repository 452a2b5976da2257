#include <tessera/tile_element.h>

namespace tessera::tile {

std::size_t size_in_bytes(Element element) {
  switch (element) {
    case Element::kF32:
    case Element::kI32:
      return 4;
    case Element::kBF16:
    case Element::kF16:
      return 2;
    case Element::kI8:
    case Element::kBool:
      return 1;
    case Element::kI4:
      break;
  }
  return 0;
}

std::string_view to_string(Element element) {
  switch (element) {
    case Element::kF32:
      return "fp32";
    case Element::kBF16:
      return "bf16";
    case Element::kF16:
      return "fp16";
    case Element::kI8:
      return "int8";
    case Element::kI32:
      return "int32";
    case Element::kBool:
      return "bool";
    case Element::kI4:
      return "int4";
  }
  return "unknown";
}

std::optional<Element> element_from_string(std::string_view name) {
  for (Element element : {Element::kF32, Element::kBF16, Element::kF16, Element::kI8, Element::kI32,
                          Element::kBool, Element::kI4}) {
    if (name == to_string(element)) return element;
  }
  return std::nullopt;
}

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Element::kF32;
    case DType::kBF16:
      return Element::kBF16;
    case DType::kF16:
      return Element::kF16;
  }
  return Element::kF32;
}

}  // namespace tessera::tile
