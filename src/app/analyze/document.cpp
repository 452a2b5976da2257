#include "app/analyze/document.h"

#include <fmt/format.h>

namespace tessera::app::analyze {

std::string value_text(const Value& value, const Quantity& quantity) {
  std::string text = quantity.text(value.median);
  if (!quantity.unit.empty()) text += " " + quantity.unit;
  if (value.low && value.high) {
    text += fmt::format(" ({} to {})", quantity.text(*value.low), quantity.text(*value.high));
  }
  return text;
}

}  // namespace tessera::app::analyze
