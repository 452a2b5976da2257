#include "app/analyze/step_cases.h"

#include <algorithm>

#include <fmt/format.h>

namespace tessera::app::analyze {

StepCase case_of(const StepResult& result) {
  return {result.batch, result.depth, result.new_tokens, result.step_tokens};
}

const StepResult* find(const StepResults& results, const StepCase& wanted) {
  const auto found = std::ranges::find(results.results, wanted, case_of);
  return found == results.results.end() ? nullptr : &*found;
}

std::vector<StepCase> cases_of(const std::vector<Run<StepResults>>& runs) {
  std::vector<StepCase> cases;
  for (const Run<StepResults>& run : runs) {
    for (const StepResult& result : run.results.results) cases.push_back(case_of(result));
  }
  std::ranges::sort(cases);
  const auto repeated = std::ranges::unique(cases);
  cases.erase(repeated.begin(), repeated.end());
  return cases;
}

std::string label_of(const StepCase& each, const std::vector<StepCase>& among) {
  std::string label;
  for (const StepField& field : kStepFields) {
    const bool differs = std::ranges::any_of(
        among, [&](const StepCase& other) { return other.*field.member != each.*field.member; });
    if (!differs) continue;
    label += label.empty() ? "" : ", ";
    label += fmt::format(fmt::runtime(field.label), each.*field.member);
  }
  return label;
}

std::string full_label(const StepCase& each, const std::vector<StepCase>& among) {
  std::string label = label_of(each, among);
  if (!label.empty()) return label;
  return fmt::format("batch {}, depth {}, {} tokens", each.batch, each.depth, each.new_tokens);
}

std::vector<std::string> labels_of(const std::vector<StepCase>& cases) {
  std::vector<std::string> labels;
  for (const StepCase& each : cases) labels.push_back(full_label(each, cases));
  return labels;
}

}  // namespace tessera::app::analyze
