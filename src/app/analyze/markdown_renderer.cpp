#include <fmt/format.h>

#include "app/analyze/renderers.h"
#include "app/analyze/table_text.h"
#include "io/quote.h"

namespace tessera::app::analyze {

namespace {

// With what Markdown and HTML would read as markup written so that it is read as text.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : on_one_line(text)) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      if (std::string_view("\\`*_[]|~#!$").find(c) != std::string_view::npos) result += '\\';
      result += c;
    }
  }
  return result;
}

std::string table_of(const Table& table) {
  std::string text = "|";
  for (const Column& column : table.columns) text += fmt::format(" {} |", plain(column.title));
  text += "\n|";
  for (const Column& column : table.columns) text += is_numeric(column) ? "---:|" : "---|";
  text += '\n';
  for (const std::vector<Cell>& row : table.rows) {
    text += '|';
    for (std::size_t c = 0; c < row.size(); ++c) {
      text += fmt::format(" {} |", plain(cell_text(table.columns[c], row[c])));
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string to_markdown(const Document& document) {
  std::string text = "# " + plain(document.title) + "\n";
  for (const Section& section : document.sections) {
    text += "\n## " + plain(section.title) + "\n";
    if (!section.notes.empty()) text += '\n';
    for (const std::string& note : section.notes) text += "- " + plain(note) + "\n";
    for (const Table& table : section.tables) {
      text += '\n';
      if (table.title != section.title) text += "### " + plain(table.title) + "\n\n";
      text += table_of(table);
    }
  }
  return text;
}

}  // namespace tessera::app::analyze
