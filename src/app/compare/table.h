// The comparison as a table on the terminal.
#pragma once

#include <nlohmann/json.hpp>

#include "app/compare/comparison.h"

namespace tessera::app {

void print_table_head(const ComparisonPlan& plan);

// One line, and another for a reason.
void print_table_row(const nlohmann::ordered_json& result);

// What there is to know about all rows.
void print_table_notes(const ComparisonPlan& plan);

}  // namespace tessera::app
