#include "tests/app/analyze/page.h"

#include <regex>
#include <stdexcept>

#include "io/json_file.h"

namespace tessera::testing {

namespace {

std::string unescaped(std::string text) {
  for (const auto& [entity, character] : std::map<std::string, std::string>{
           {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}}) {
    for (std::size_t i; (i = text.find(entity)) != std::string::npos;) {
      text.replace(i, entity.size(), character);
    }
  }
  for (std::size_t i = 0; (i = text.find("&amp;", i)) != std::string::npos; ++i) {
    text.replace(i, 5, "&");
  }
  return text;
}

// The parts of the text between begin and end.
std::vector<std::string> parts(const std::string& text, const std::string& begin,
                               const std::string& end) {
  std::vector<std::string> found;
  for (std::size_t i = 0; (i = text.find(begin, i)) != std::string::npos;) {
    const std::size_t start = i + begin.size();
    const std::size_t stop = text.find(end, start);
    if (stop == std::string::npos) throw std::runtime_error(begin + " without " + end);
    found.push_back(text.substr(start, stop - start));
    i = stop;
  }
  return found;
}

std::string only(const std::string& text, const std::string& begin, const std::string& end) {
  const std::vector<std::string> found = parts(text, begin, end);
  if (found.empty()) throw std::runtime_error("no " + begin);
  return found[0];
}

std::optional<double> number(const std::string& element, const std::string& attribute) {
  const std::vector<std::string> found = parts(element, attribute + "=\"", "\"");
  if (found.empty()) return std::nullopt;
  return std::stod(found[0]);
}

std::optional<PageValue> value_of(const std::string& element) {
  const auto value = number(element, "data-value");
  if (!value) return std::nullopt;
  return PageValue{*value, number(element, "data-low"), number(element, "data-high"), ""};
}

std::string without_tags(const std::string& html) {
  static const std::regex tag("<[^>]*>");
  return unescaped(std::regex_replace(html, tag, ""));
}

PageMark mark_of(const std::string& group) {
  PageMark mark;
  mark.series = unescaped(only(group, "data-series=\"", "\""));
  mark.at = unescaped(only(group, "data-at=\"", "\""));
  mark.value = *value_of(group.substr(0, group.find('>')));
  if (group.find("class=\"bar") != std::string::npos) {
    mark.x = *number(group.substr(group.find("<rect")), " width");
  } else if (group.find("<circle") != std::string::npos) {
    mark.x = *number(group, " cx");
    mark.y = *number(group, " cy");
  }
  return mark;
}

}  // namespace

std::size_t PageTable::column(const std::string& title) const {
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c] == title) return c;
  }
  throw std::runtime_error("the table " + caption + " has no column " + title);
}

const PageValue& PageTable::value(std::size_t row, const std::string& title) const {
  return rows.at(row).at(column(title)).value.value();
}

std::vector<PageTable> tables_of(const std::string& html) {
  std::vector<PageTable> tables;
  for (const std::string& text : parts(html, "<table>", "</table>")) {
    PageTable& table = tables.emplace_back();
    const std::string caption = only(text, "<caption", "</caption>");
    table.caption = unescaped(caption.substr(caption.find('>') + 1));
    for (const std::string& head : parts(text, "<th ", "</th>")) {
      table.columns.push_back(unescaped(head.substr(head.find('>') + 1)));
    }
    for (const std::string& row : parts(text.substr(text.find("<tbody>")), "<tr>", "</tr>")) {
      std::vector<PageCell>& cells = table.rows.emplace_back();
      for (const std::string& cell : parts(row, "<td", "</td>")) {
        const std::size_t end = cell.find('>');
        PageCell& made = cells.emplace_back();
        made.text = without_tags(cell.substr(end + 1));
        made.value = value_of(cell.substr(0, end));
        if (made.value) made.value->shown = made.text.substr(0, made.text.find(' '));
      }
    }
  }
  return tables;
}

std::vector<PageChart> charts_of(const std::string& html) {
  std::vector<PageChart> charts;
  for (const std::string& text : parts(html, "<figure>", "</figure>")) {
    PageChart& chart = charts.emplace_back();
    chart.title = unescaped(only(text, "<figcaption>", "</figcaption>"));
    chart.svg = only(text, "<svg", "</svg>");
    for (const std::string& group : parts(text, "<g class=\"value", "</g>")) {
      chart.marks.push_back(mark_of(group));
    }
  }
  return charts;
}

const PageTable& table(const std::vector<PageTable>& tables, const std::string& caption) {
  for (const PageTable& each : tables) {
    if (each.caption == caption) return each;
  }
  throw std::runtime_error("no table " + caption);
}

const PageChart& chart(const std::vector<PageChart>& charts, const std::string& title) {
  for (const PageChart& each : charts) {
    if (each.title == title) return each;
  }
  throw std::runtime_error("no chart " + title);
}

std::string data_path(const std::string& name) {
  return TESSERA_TEST_DATA "/analyze/" + name;
}

nlohmann::json data_json(const std::string& name) {
  return read_json_file(data_path(name));
}

app::analyze::ResultFile data_file(const std::string& name) {
  return parsed(data_json(name), name);
}

app::analyze::ResultFile parsed(const nlohmann::json& json, const std::string& name) {
  return app::analyze::ResultFile::parse(json.dump(), name);
}

}  // namespace tessera::testing
