// Implementations of one operator by number of rows: what prolog and kernels have in common.
#pragma once

#include <string>
#include <vector>

#include "app/analyze/document.h"
#include "app/analyze/result_file.h"

namespace tessera::app::analyze {

const Implementation* find(const OperatorResult& result, const std::string& name);  // null: none
const OperatorResult* find(const std::vector<OperatorResult>& results, std::int64_t rows);

// The names, in the order in which they come first.
std::vector<std::string> names_of(const std::vector<OperatorResult>& results);

// The one whose times as fast are 1 in every sample of every result, which the others are held
// against; empty where there is none.
std::string baseline_of(const std::vector<OperatorResult>& results);

LineChart time_chart(const std::string& title, const std::vector<OperatorResult>& results);
// Without the baseline, which is the line at 1. No series where there is nothing else.
LineChart times_as_fast_chart(const std::string& title, const std::vector<OperatorResult>& results);
LineChart share_chart(const std::string& title, const std::vector<OperatorResult>& results);
Table implementations_table(const std::string& title, const std::vector<OperatorResult>& results);

// Results of one case in two runs: the time of each implementation, and how many times as fast the
// second run is. names: of the runs.
struct NamedResults {
  std::string name;
  const std::vector<OperatorResult>* results;
};
Table runs_table(const std::string& title, const std::vector<NamedResults>& runs);
LineChart runs_chart(const std::string& title, const std::vector<NamedResults>& runs);

}  // namespace tessera::app::analyze
