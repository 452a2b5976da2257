// Cells of tables as words.
#pragma once

#include <string>

#include "app/analyze/document.h"

namespace tessera::app::analyze {

// "12.3 (12.1 to 12.9)", without the unit, which the column's title has. Empty for an empty cell.
std::string cell_text(const Column& column, const Cell& cell);

// Numbers stand at the right.
bool is_numeric(const Column& column);

}  // namespace tessera::app::analyze
