#include "model/graph/step_inputs.h"

#include <cassert>

namespace tessera {

StepInputs::StepInputs(std::int64_t max_rows, std::int64_t max_logits, std::int64_t half)
    : max_rows_(max_rows), max_logits_(max_logits), half_(half), counts_{max_rows, max_logits} {
  const auto n = static_cast<std::size_t>(max_rows);
  cos_.resize(n * static_cast<std::size_t>(half));
  sin_.resize(cos_.size());
  for (auto* list : {&slot_, &block_, &place_}) list->resize(n);
  visible_.resize(n);
  selected_.resize(static_cast<std::size_t>(max_logits));
}

void StepInputs::fill(std::span<const Segment> segments, const KvCache& cache,
                      const ops::RopeFrequencies& frequencies) {
  std::size_t row = 0;
  std::size_t logit = 0;
  const auto half = static_cast<std::size_t>(half_);
  for (const Segment& s : segments) {
    const std::int64_t n = std::ssize(s.tokens);
    const std::int64_t first = cache.length(s.sequence) - n;
    for (std::int64_t i = 0; i < n; ++i, ++row) {
      assert(row < slot_.size());
      frequencies.cos_sin(first + i, {cos_.data() + row * half, half},
                          {sin_.data() + row * half, half});
      visible_[row] = cache.visible(s.sequence, first + i + 1);
      const std::int64_t slot = cache.slot(s.sequence, first + i);
      slot_[row] = static_cast<std::int32_t>(slot);
      block_[row] = static_cast<std::int32_t>(slot / KvCache::kPageTokens);
      place_[row] = static_cast<std::int32_t>(slot % KvCache::kPageTokens);
      if (i >= n - s.n_logits) selected_[logit++] = static_cast<std::int32_t>(row);
    }
  }
  set_counts(static_cast<std::int64_t>(row), static_cast<std::int64_t>(logit));
}

}  // namespace tessera
