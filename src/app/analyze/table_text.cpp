#include "app/analyze/table_text.h"

namespace tessera::app::analyze {

std::string cell_text(const Column& column, const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const auto* value = std::get_if<Value>(&cell);
  if (value == nullptr) return "";
  Quantity quantity = column.quantity.value_or(kCount);
  quantity.unit.clear();
  return value_text(*value, quantity);
}

bool is_numeric(const Column& column) {
  return column.quantity.has_value();
}

}  // namespace tessera::app::analyze
