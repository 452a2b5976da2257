// From results to sections of the document, one function for each kind of result. Files of one kind
// stand side by side as runs, each of them held against the first.
#pragma once

#include <string>
#include <vector>

#include "app/analyze/document.h"
#include "app/analyze/result_file.h"

namespace tessera::app::analyze {

template <typename R>
struct Run {
  std::string name;  // unlike that of any other
  Setup setup;
  R results;
};

// title: "Decoding". None for no runs, as for the others.
std::vector<Section> step_sections(const std::string& title,
                                   const std::vector<Run<StepResults>>& runs);
std::vector<Section> prolog_sections(const std::vector<Run<PrologResults>>& runs);
std::vector<Section> kernel_sections(const std::vector<Run<KernelResults>>& runs);
std::vector<Section> memory_sections(const std::vector<Run<MemoryResults>>& runs);
std::vector<Section> comparison_sections(const std::vector<Run<ComparisonResults>>& runs);

// The median between the extremes, for tables; the median and the middle half of the samples, for
// charts, where one sample that was disturbed must not flatten the others. One sample alone has
// neither.
Value with_extremes(const Measured& measured);
Value with_middle_half(const Measured& measured);

// How many times b is as large as a, by their medians, with the interval that holds 95 % of the
// ratios of resampled medians. Samples of two runs do not come in pairs, so that what the machine
// did meanwhile is in the interval only as far as it is in the samples.
Value ratio_of(const Measured& a, const Measured& b);

}  // namespace tessera::app::analyze
