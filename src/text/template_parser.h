// Chat template tokens to statements.
#pragma once

#include <string_view>

#include "text/template_ast.h"

namespace tessera::text {

// Throws Error(kBadTemplate) for what is not Jinja, and for parts of Jinja that are not supported.
// Nesting is bounded, so that hostile templates cannot exhaust the stack.
Block parse_template(std::string_view source);

}  // namespace tessera::text
