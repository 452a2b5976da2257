#include <algorithm>

#include "app/analyze/html_text.h"
#include "app/analyze/renderers.h"
#include "app/analyze/table_text.h"
#include "io/quote.h"

namespace tessera::app::analyze {

namespace {

constexpr std::string_view kGap = "  ";

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::size_t own = display_width(text);
  const std::string space(width > own ? width - own : 0, ' ');
  return right ? space + text : text + space;
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                    const Table& table) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) line += kGap;
    line += padded(cells[c], widths[c], is_numeric(table.columns[c]));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string text_of(const Table& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : table.columns) lines[0].push_back(on_one_line(column.title));
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t c = 0; c < row.size(); ++c) {
      line.push_back(on_one_line(cell_text(table.columns[c], row[c])));
    }
  }
  std::vector<std::size_t> widths(table.columns.size());
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      widths[c] = std::max(widths[c], display_width(line[c]));
    }
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) text += line_of(line, widths, table);
  return text;
}

}  // namespace

std::string to_text(const Document& document) {
  std::string text;
  for (const Section& section : document.sections) {
    if (!text.empty()) text += '\n';
    const std::string title = on_one_line(section.title);
    text += title + "\n" + std::string(display_width(title), '=') + "\n";
    for (const std::string& note : section.notes) text += on_one_line(note) + "\n";
    for (const Table& table : section.tables) {
      text += '\n';
      if (table.title != section.title) text += on_one_line(table.title) + ":\n";
      text += text_of(table);
    }
  }
  return text;
}

}  // namespace tessera::app::analyze
