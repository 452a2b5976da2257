// What changes from one replay of a step to the next, in memory that stays where it is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/kv_cache.h"
#include "model/segment.h"
#include "ops/mla_prolog/mla_prolog.h"
#include "ops/recorded_rows.h"
#include "ops/rope/rope.h"
#include "ops/visible_tokens.h"

namespace tessera {

// Tables of up to max_rows tokens, of which up to max_logits get logits.
class StepInputs {
 public:
  StepInputs(std::int64_t max_rows, std::int64_t max_logits, std::int64_t half);

  // Those of a step whose tokens are in the cache's lists already, but not yet in its memory.
  // Allocates nothing.
  void fill(std::span<const Segment> segments, const KvCache& cache,
            const ops::RopeFrequencies& frequencies);

  ops::RowCount rows() const { return {counts_.data(), max_rows_}; }
  ops::RowCount logits() const { return {counts_.data() + 1, max_logits_}; }
  void set_counts(std::int64_t rows, std::int64_t n_logits) { counts_ = {rows, n_logits}; }

  const float* cos() const { return cos_.data(); }  // [rows, half]
  const float* sin() const { return sin_.data(); }
  std::int64_t half() const { return half_; }
  const std::int32_t* slot() const { return slot_.data(); }              // [rows]
  const std::int32_t* block() const { return block_.data(); }            // [rows]: its page
  const std::int32_t* place() const { return place_.data(); }            // [rows]: and where in it
  const ops::VisibleTokens* visible() const { return visible_.data(); }  // [rows]
  const std::int32_t* selected() const { return selected_.data(); }      // [logits]: rows

  std::int64_t* experts_read() { return &experts_read_; }

 private:
  std::int64_t max_rows_;
  std::int64_t max_logits_;
  std::int64_t half_;
  std::vector<std::int64_t> counts_;
  std::vector<float> cos_, sin_;
  std::vector<std::int32_t> slot_, block_, place_;
  std::vector<ops::VisibleTokens> visible_;
  std::vector<std::int32_t> selected_;
  std::int64_t experts_read_ = 0;
};

}  // namespace tessera
