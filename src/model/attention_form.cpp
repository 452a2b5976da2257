#include "model/attention_form.h"

#include <limits>

namespace tessera {

std::string_view to_string(AttentionForm form) {
  switch (form) {
    case AttentionForm::kAuto:
      return "auto";
    case AttentionForm::kAbsorbed:
      return "absorbed";
    case AttentionForm::kExpanded:
      return "expanded";
  }
  return {};
}

std::optional<AttentionForm> attention_form_from_string(std::string_view name) {
  for (AttentionForm form : kAttentionForms) {
    if (name == to_string(form)) return form;
  }
  return std::nullopt;
}

std::int64_t least_expanded_tokens(AttentionForm form) {
  switch (form) {
    case AttentionForm::kAuto:
      return kExpandedTokens;
    case AttentionForm::kAbsorbed:
      return std::numeric_limits<std::int64_t>::max();
    case AttentionForm::kExpanded:
      return kDecodeTokens + 1;
  }
  return {};
}

}  // namespace tessera
