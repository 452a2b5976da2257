// The document as text for a terminal, as Markdown, as JSON, and as a page with charts.
#pragma once

#include <string>

#include "app/analyze/document.h"

namespace tessera::app::analyze {

std::string to_text(const Document& document);
std::string to_markdown(const Document& document);

// {"title", "sections": [{"title", "notes", "tables": [{"title", "columns": [{"title", "unit",
// "factor"}], "rows"}]}]}; a cell is null, a string, a number, or {"median", "low", "high"}, in the
// unit of the file: times factor it is what the other forms show.
std::string to_json(const Document& document);

// One file that needs no other: style and charts are in it, and no script.
std::string to_html(const Document& document);

}  // namespace tessera::app::analyze
