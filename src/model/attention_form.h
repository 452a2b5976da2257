// In which form a step's new tokens of a sequence attend to a latent cache.
//
// Absorbed (ops/mla_attention) takes latent + rope + latent multiply-adds for a query, a head and a
// token that it sees; expanded (ops/expanded_attention) nope + rope + v, but first makes a key and
// a value of every token that is seen, which many queries have to share. The results are the same
// within rounding, not in bits. So the choice rests on positions alone: never on the number of
// threads, on time, or on what else is in the step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace tessera {

enum class AttentionForm {
  kAuto,      // expanded from kExpandedDepth and kExpandedTokens on, where it is faster
  kAbsorbed,  // always
  kExpanded,  // for all but the few tokens of a decode step: for comparisons
};
inline constexpr AttentionForm kAttentionForms[] = {AttentionForm::kAuto, AttentionForm::kAbsorbed,
                                                    AttentionForm::kExpanded};

// "auto", "absorbed", "expanded".
std::string_view to_string(AttentionForm form);
std::optional<AttentionForm> attention_form_from_string(std::string_view name);

// MEASURED
inline constexpr std::int64_t kExpandedTokens = 256;
inline constexpr std::int64_t kExpandedDepth = 512;

// Steps of up to so many tokens a sequence are decode steps, whatever was asked for.
inline constexpr std::int64_t kDecodeTokens = 8;

// Chunks of at least `tokens` new tokens behind at least `depth` others are attended in expanded
// form.
struct ExpansionRule {
  std::int64_t depth = 0;
  std::int64_t tokens = std::numeric_limits<std::int64_t>::max();

  bool expands(std::int64_t before, std::int64_t n) const { return before >= depth && n >= tokens; }
  // Whether it expands any chunk of which all tokens have positions in [begin, end): such a part of
  // a prompt must not be cut by the company that it happens to have.
  bool expands_part(std::int64_t begin, std::int64_t end) const {
    return end - std::max(begin, depth) >= tokens;
  }
};

ExpansionRule expansion_rule(AttentionForm form);

}  // namespace tessera
