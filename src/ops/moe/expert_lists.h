// The choices of a step's tokens, sorted by expert.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::ops {

// The choices of one expert: [first, first + rows) of the sorted ones.
struct ExpertPart {
  std::int32_t expert = 0;
  std::int32_t first = 0;
  std::int32_t rows = 0;
};

// Choice i is token i / top_k's; by expert, those of one expert in the order of the tokens.
struct ExpertLists {
  std::int32_t* tokens = nullptr;  // [choices]
  float* weights = nullptr;        // [choices]
  ExpertPart* parts = nullptr;     // of the experts that were chosen, rising
  std::int64_t n_parts = 0;
};

// A counting sort. end: room for n_experts numbers; the other arrays of `lists` for n_choices.
void sort_by_expert(const std::int32_t* chosen, const float* weights, std::int64_t n_choices,
                    std::int64_t top_k, std::int64_t n_experts, std::int32_t* end,
                    ExpertLists& lists);

}  // namespace tessera::ops
