// The comparison of A and B: cases one after the other, each a number of rounds.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tessera/kernels.h>

#include "app/compare/cases.h"
#include "app/compare/run.h"
#include "text/tokenizer.h"

namespace tessera::app {

struct ComparisonPlan {
  std::string model;
  Side a;  // the only one that may be external
  Side b;
  std::vector<Case> cases;
  int repeat = 6;  // counted rounds
  int warmup = 1;  // rounds before them
  std::chrono::seconds cooldown{0};
  std::chrono::seconds timeout{600};
  std::optional<double> tolerance;  // of logits; none: tokens must be equal

  std::size_t runs_of_a_case() const { return 2 * static_cast<std::size_t>(repeat + warmup); }
};

// Told before each run: "round 2, A", and how many runs of the case are over.
using OnRun = std::function<void(const std::string& what, std::size_t runs_done)>;

class PlannedComparison {
 public:
  // The plan must outlive it. on_warning is told once what a side warns of: that a kernel does not
  // run as its flags ask for, for example.
  PlannedComparison(const ComparisonPlan& plan, OnRun on_run, WarnFn on_warning);

  // A result as docs/commands/bench-compare.md describes it. A side that fails, or answers that
  // differ, are results, not errors.
  nlohmann::ordered_json run_case(std::size_t index);

 private:
  friend class CaseComparison;

  void warn(const std::string& sentence);
  std::string text_of(std::int32_t token);

  const ComparisonPlan& plan_;
  OnRun on_run_;
  WarnFn on_warning_;
  std::set<std::string> told_;
  bool ran_before_ = false;                     // then runs are cool-downs apart
  std::unique_ptr<text::Tokenizer> tokenizer_;  // once a difference is to be told
};

}  // namespace tessera::app
