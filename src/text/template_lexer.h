// Chat template source to tokens. White space is controlled as transformers sets it: trim_blocks
// and lstrip_blocks on, the newline at the very end dropped; '-' and '+' at tags override.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

enum class TemplateTokenKind {
  kText,           // literal output
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,   // text is the value, escapes resolved
  kInteger,  // text is decimal digits
  kFloat,
  kOperator,
  kEnd,
};

struct TemplateToken {
  TemplateTokenKind kind;
  std::string text;
  int line;  // from 1
};

// The tokens, kEnd last. Comments are gone. Throws Error(kBadTemplate).
std::vector<TemplateToken> lex_template(std::string_view source);

}  // namespace tessera::text
