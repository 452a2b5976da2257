// Do A and B say the same?
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/compare/run.h"

namespace tessera::app {

// The first token that differs, in the first sequence that does; counted from 0. None: the answer
// had ended before.
struct Difference {
  std::size_t sequence = 0;
  std::size_t position = 0;
  std::optional<std::int32_t> a;
  std::optional<std::int32_t> b;
};

// Of as many sequences on both sides.
std::optional<Difference> first_difference(const std::vector<TokenIds>& a,
                                           const std::vector<TokenIds>& b);

struct LogitsComparison {
  double max_abs_difference = 0;
  std::int64_t positions = 0;
  std::string failure;  // empty: it gave the rest
};

// Runs `tessera logits` with the flags of either side on what A was asked and answered, and
// compares the logits by which each token of the answer was chosen.
LogitsComparison compare_logits(const std::vector<std::string>& a_flags,
                                const std::vector<std::string>& b_flags, const std::string& model,
                                const Run& a, std::chrono::seconds timeout);

}  // namespace tessera::app
