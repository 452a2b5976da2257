#include <nlohmann/json.hpp>

#include "app/analyze/renderers.h"

namespace tessera::app::analyze {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const auto* value = std::get_if<Value>(&cell);
  if (value == nullptr) return nullptr;
  if (!value->low || !value->high) return value->median;
  return {{"median", value->median}, {"low", *value->low}, {"high", *value->high}};
}

Json json_of(const Table& table) {
  Json columns = Json::array();
  for (const Column& column : table.columns) {
    columns.push_back({{"title", column.title}});
    if (!column.quantity) continue;
    columns.back()["unit"] = column.quantity->unit;
    columns.back()["factor"] = column.quantity->factor;
  }
  Json rows = Json::array();
  for (const std::vector<Cell>& row : table.rows) {
    Json& cells = rows.emplace_back(Json::array());
    for (const Cell& cell : row) cells.push_back(json_of(cell));
  }
  return {{"title", table.title}, {"columns", columns}, {"rows", rows}};
}

}  // namespace

std::string to_json(const Document& document) {
  Json sections = Json::array();
  for (const Section& section : document.sections) {
    Json tables = Json::array();
    for (const Table& table : section.tables) tables.push_back(json_of(table));
    sections.push_back({{"title", section.title}, {"notes", section.notes}, {"tables", tables}});
  }
  const Json json = {{"title", document.title}, {"sections", sections}};
  // The name of a file need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tessera::app::analyze
