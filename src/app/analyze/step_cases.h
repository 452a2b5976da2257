// Cases of the benchmarks of steps: what tells one result from another, and how it is called.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "app/analyze/sections.h"

namespace tessera::app::analyze {

struct StepCase {
  std::int64_t batch = 0;
  std::int64_t depth = 0;
  std::int64_t new_tokens = 0;
  std::int64_t step_tokens = 0;

  auto operator<=>(const StepCase&) const = default;
};

struct StepField {
  std::int64_t StepCase::* member;
  const char* name;    // "throughput by" this
  const char* column;  // of the table
  const char* label;   // of a case, with {} for the number
  const char* axis;
  bool chart;  // is worth a chart of throughput
};

inline constexpr std::array kStepFields = {
    StepField{&StepCase::batch, "batch size", "batch", "batch {}", "sequences in the batch", true},
    StepField{&StepCase::depth, "depth", "depth", "depth {}", "tokens in the cache before", true},
    StepField{&StepCase::new_tokens, "length", "tokens", "{} tokens", "tokens of a sample", true},
    StepField{&StepCase::step_tokens, "step", "per step", "{} tokens a step",
              "tokens of a sequence in a step", false},
};

StepCase case_of(const StepResult& result);
const StepResult* find(const StepResults& results, const StepCase& wanted);  // null: not there

// Those of all runs, sorted.
std::vector<StepCase> cases_of(const std::vector<Run<StepResults>>& runs);

// "batch 8, depth 128": the fields in which the cases of the list differ; empty where none does.
std::string label_of(const StepCase& each, const std::vector<StepCase>& among);
// The same, or batch, depth and tokens where there is nothing that differs.
std::string full_label(const StepCase& each, const std::vector<StepCase>& among);
std::vector<std::string> labels_of(const std::vector<StepCase>& cases);

}  // namespace tessera::app::analyze
