#include <iterator>

#include <fmt/format.h>

#include "app/analyze/chart/chart.h"
#include "app/analyze/html_style.h"
#include "app/analyze/html_text.h"
#include "app/analyze/renderers.h"
#include "app/analyze/table_text.h"

namespace tessera::app::analyze {

namespace {

template <typename... Args>
void append(std::string& html, fmt::format_string<Args...> text, Args&&... args) {
  fmt::format_to(std::back_inserter(html), text, std::forward<Args>(args)...);
}

// Such text, a path for instance, may be broken anywhere.
constexpr std::size_t kLongText = 24;

void add_cell(std::string& html, const Column& column, const Cell& cell) {
  const auto* value = std::get_if<Value>(&cell);
  if (value == nullptr) {
    const std::string text = cell_text(column, cell);
    append(html, "<td{}>{}</td>", text.size() > kLongText ? " class=\"long\"" : "", escaped(text));
    return;
  }
  append(html, "<td class=\"number\" data-value=\"{}\"", value->median);
  if (value->low && value->high) {
    append(html, " data-low=\"{}\" data-high=\"{}\"", *value->low, *value->high);
  }
  const Quantity& quantity = column.quantity.value_or(kCount);
  append(html, ">{}", quantity.text(value->median));
  if (value->low && value->high) {
    append(html, " <small>({} to {})</small>", quantity.text(*value->low),
           quantity.text(*value->high));
  }
  html += "</td>";
}

// The heading before the table may have said its title already.
void add_table(std::string& html, const Table& table, const std::string& heading) {
  append(html,
         "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<caption{}>{}</caption>\n<thead><tr>",
         table.title == heading ? " class=\"unseen\"" : "", escaped(table.title));
  for (const Column& column : table.columns) {
    append(html, "<th scope=\"col\"{}>{}</th>", is_numeric(column) ? " class=\"number\"" : "",
           escaped(column.title));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    html += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) add_cell(html, table.columns[c], row[c]);
    html += "</tr>\n";
  }
  html += "</tbody>\n</table>\n</div>\n";
}

void add_chart(std::string& html, const Chart& chart, const std::string& id) {
  std::visit(
      [&](const auto& each) {
        append(html,
               "<figure>\n<figcaption>{}</figcaption>\n<div class=\"scroll\">{}</div>\n</figure>\n",
               escaped(each.title), draw(each, id));
      },
      chart);
}

}  // namespace

std::string to_html(const Document& document) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
      escaped(document.title), kPageStyle, escaped(document.title));
  int n_charts = 0;
  for (const Section& section : document.sections) {
    append(html, "<section>\n<h2>{}</h2>\n", escaped(section.title));
    if (!section.notes.empty()) html += "<ul class=\"notes\">\n";
    for (const std::string& note : section.notes) append(html, "<li>{}</li>\n", escaped(note));
    if (!section.notes.empty()) html += "</ul>\n";
    for (const std::vector<Chart>* charts : {&section.charts, &section.pairs}) {
      if (charts->empty()) continue;
      html += "<div class=\"charts\">\n";
      for (const Chart& chart : *charts) {
        add_chart(html, chart, fmt::format("chart-{}", ++n_charts));
      }
      html += "</div>\n";
    }
    for (const Table& table : section.tables) add_table(html, table, section.title);
    html += "</section>\n";
  }
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace tessera::app::analyze
