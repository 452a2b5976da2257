// Where the time of a step goes: charts and tables by operator, for results made with --by-op.
#pragma once

#include <vector>

#include "app/analyze/sections.h"
#include "app/analyze/step_cases.h"

namespace tessera::app::analyze {

// Charts of the first and the last case that has operators; a table of each.
void add_operators(Section& section, const std::vector<Run<StepResults>>& runs,
                   const std::vector<StepCase>& cases);

}  // namespace tessera::app::analyze
