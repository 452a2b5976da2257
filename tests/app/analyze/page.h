// Reading back what is written on a page of tessera analyze.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/analyze/result_file.h"

namespace tessera::testing {

// A number of a cell or a mark: the attributes, and what a reader sees (empty for marks).
struct PageValue {
  double value = 0;
  std::optional<double> low;
  std::optional<double> high;
  std::string shown;
};

struct PageCell {
  std::string text;
  std::optional<PageValue> value;
};

struct PageTable {
  std::string caption;
  std::vector<std::string> columns;
  std::vector<std::vector<PageCell>> rows;

  std::size_t column(const std::string& title) const;  // fails the test where it is not there
  const PageValue& value(std::size_t row, const std::string& title) const;
};

struct PageMark {
  std::string series;
  std::string at;
  PageValue value;
  double x = 0;  // of the sign, or the length of the bar
  double y = 0;  // of the sign
};

struct PageChart {
  std::string title;
  std::string svg;
  std::vector<PageMark> marks;
};

std::vector<PageTable> tables_of(const std::string& html);
std::vector<PageChart> charts_of(const std::string& html);
const PageTable& table(const std::vector<PageTable>& tables, const std::string& caption);
const PageChart& chart(const std::vector<PageChart>& charts, const std::string& title);

// A file of tests/data/analyze.
std::string data_path(const std::string& name);
nlohmann::json data_json(const std::string& name);
app::analyze::ResultFile data_file(const std::string& name);
app::analyze::ResultFile parsed(const nlohmann::json& json, const std::string& name);

}  // namespace tessera::testing
