// In which form a step's new tokens of a sequence attend to a latent cache.
//
// Absorbed (ops/mla_attention) takes latent + rope + latent multiply-adds for a query, a head and a
// token that it sees, and a query's way into the latent space and back; expanded
// (ops/expanded_attention) takes nope + rope + v, but first makes a key and a value of every token
// that is seen, which many queries have to share. The results are the same within rounding, not in
// bits. So the choice rests on the number of a sequence's new tokens alone: never on threads, on
// time, or on what else is in the step.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

enum class AttentionForm {
  kAuto,      // expanded for chunks of kExpandedTokens and more
  kAbsorbed,  // always
  kExpanded,  // for all but the few tokens of a decode step: for comparisons
};
inline constexpr AttentionForm kAttentionForms[] = {AttentionForm::kAuto, AttentionForm::kAbsorbed,
                                                    AttentionForm::kExpanded};

// "auto", "absorbed", "expanded".
std::string_view to_string(AttentionForm form);
std::optional<AttentionForm> attention_form_from_string(std::string_view name);

// Measured (ops/expanded_attention, benchmark `forms`) at V2-Lite's sizes, depths of 0 to 8,192,
// with AVX-512, AVX2 and neither, expansions in int8 and bf16: the expanded form takes as long as
// the absorbed one at 100 to 200 new tokens behind many, at fewer behind few, and is 1.15 to 1.9
// times as fast at 256. By multiply-adds alone it would be 171 behind many.
inline constexpr std::int64_t kExpandedTokens = 256;

// Steps of up to so many tokens a sequence are decode steps, whatever was asked for.
inline constexpr std::int64_t kDecodeTokens = 8;

// The least number of a sequence's new tokens that attend in expanded form.
std::int64_t least_expanded_tokens(AttentionForm form);

}  // namespace tessera
