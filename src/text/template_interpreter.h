// Running a parsed chat template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/template_ast.h"
#include "text/template_call.h"

namespace tessera::text {

using Variables = std::vector<std::pair<std::string, Value>>;

// What the template prints. Throws Error(kBadTemplate) where it uses what is undefined or not
// supported, or does more than the limits allow; Error(kInvalidArgument) where it calls
// raise_exception().
MarkedText run_template(const Block& block, Variables variables, const RenderLimits& limits);

}  // namespace tessera::text
