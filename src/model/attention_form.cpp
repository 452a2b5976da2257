#include "model/attention_form.h"

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

ExpansionRule expansion_rule(AttentionForm form) {
  switch (form) {
    case AttentionForm::kAuto:
      return {kExpandedDepth, kExpandedTokens};
    case AttentionForm::kAbsorbed:
      return {};
    case AttentionForm::kExpanded:
      return {0, kDecodeTokens + 1};
  }
  return {};
}

}  // namespace tessera
