#include "app/analyze/quantity.h"

#include <fmt/format.h>

namespace tessera::app::analyze {

std::string Quantity::text(double value) const {
  std::string text = fmt::format("{:.{}f}", value * factor, decimals);
  if (text.find_first_not_of("-0.") == std::string::npos && text.starts_with('-')) text.erase(0, 1);
  return text;
}

}  // namespace tessera::app::analyze
