// Oniguruma patterns, written for PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace tessera::text {

// A PCRE2 pattern (for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, newline LF) that matches what
// Oniguruma matches with `pattern`. Only syntax on which both agree, or that can be rewritten
// exactly, passes; the rest throws Error(kUnsupported) naming the construct. Syntax errors are left
// to PCRE2 to report.
std::string pcre2_from_oniguruma(std::string_view pattern);

}  // namespace tessera::text
