// What is to be told, without how it looks: sections of sentences, charts and tables. Numbers are
// those of the files, in their units; a Quantity says how they are shown.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/analyze/quantity.h"

namespace tessera::app::analyze {

// A median and what it lies between: the extremes of the samples, or an interval of confidence.
// No low and high where there is one sample only.
struct Value {
  double median = 0;
  std::optional<double> low = {};
  std::optional<double> high = {};
};

// "12.3 ms (12.1 to 12.9)".
std::string value_text(const Value& value, const Quantity& quantity);

// Empty where there is nothing to say.
using Cell = std::variant<std::monostate, std::string, Value>;

struct Column {
  std::string title;
  std::optional<Quantity> quantity = {};  // of the values below; none: text
};

struct Table {
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // as many cells as columns
};

enum class Scale { kLinear, kLog2, kLog10 };

struct Axis {
  std::string title;
  Quantity quantity;
  Scale scale = Scale::kLinear;
};

// A line across a chart at one value, with a word for it: the limit, equal speed.
struct Reference {
  double value;
  std::string label;
};

struct Point {
  double x;
  Value y;
};

struct LineSeries {
  std::string name;
  std::vector<Point> points;  // x rises
};

// Where something changes: from this x on.
struct Mark {
  double x;
  std::string label;
};

struct LineChart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<LineSeries> series;
  std::optional<Reference> reference = {};
  std::vector<Mark> marks = {};
  bool from_zero = true;  // where y is linear
};

struct CategorySeries {
  std::string name;
  std::vector<std::optional<Value>> values;  // one for each category
};

// One group of marks for each category: bars from 0, or points with their intervals.
struct CategoryChart {
  enum class Form { kBars, kIntervals };

  std::string title;
  Axis axis;
  std::vector<std::string> categories;
  std::vector<CategorySeries> series;
  Form form = Form::kBars;
  std::optional<Reference> reference = {};
};

using Chart = std::variant<LineChart, CategoryChart>;

struct Section {
  std::string title;
  std::vector<std::string> notes;  // sentences
  std::vector<Chart> charts;
  std::vector<Chart> pairs;  // charts of one thing side by side, two by two
  std::vector<Table> tables;
};

struct Document {
  std::string title;
  std::vector<Section> sections;
};

}  // namespace tessera::app::analyze
