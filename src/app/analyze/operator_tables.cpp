#include "app/analyze/operator_tables.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

namespace tessera::app::analyze {

namespace {

using Runs = std::vector<Run<StepResults>>;

const OperatorTime* find_op(const Run<StepResults>& run, const StepCase& each,
                            const std::string& op) {
  const StepResult* result = find(run.results, each);
  if (result == nullptr) return nullptr;
  const auto found = std::ranges::find(result->by_op, op, &OperatorTime::op);
  return found == result->by_op.end() ? nullptr : &*found;
}

// All operators of the case, the one that takes longest in the first run which has it in front.
std::vector<std::string> ops_of(const Runs& runs, const StepCase& each) {
  std::vector<std::pair<double, std::string>> ops;
  for (const Run<StepResults>& run : runs) {
    const StepResult* result = find(run.results, each);
    if (result == nullptr) continue;
    for (const OperatorTime& time : result->by_op) {
      if (std::ranges::find(ops, time.op, &std::pair<double, std::string>::second) == ops.end()) {
        ops.emplace_back(time.seconds.median, time.op);
      }
    }
  }
  std::ranges::sort(ops, std::greater(), &std::pair<double, std::string>::first);
  std::vector<std::string> names;
  for (auto& [seconds, name] : ops) names.push_back(std::move(name));
  return names;
}

CategoryChart chart_of(const std::string& title, const Axis& axis, const Runs& runs,
                       const StepCase& each, const std::vector<std::string>& ops,
                       const std::function<std::optional<Value>(const OperatorTime&)>& y) {
  CategoryChart chart{title, axis, ops, {}};
  for (const Run<StepResults>& run : runs) {
    CategorySeries series{runs.size() > 1 ? run.name : "", {}};
    for (const std::string& op : ops) {
      const OperatorTime* time = find_op(run, each, op);
      series.values.push_back(time == nullptr ? std::nullopt : y(*time));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// Operators that read and compute nothing that is counted have no share.
std::vector<std::string> with_share(const Runs& runs, const StepCase& each,
                                    std::vector<std::string> ops) {
  std::erase_if(ops, [&](const std::string& op) {
    return std::ranges::none_of(runs, [&](const Run<StepResults>& run) {
      const OperatorTime* time = find_op(run, each, op);
      return time != nullptr && time->share_of_limit.median > 0;
    });
  });
  return ops;
}

void add_charts(Section& section, const Runs& runs, const StepCase& each,
                const std::string& label) {
  const std::vector<std::string> ops = ops_of(runs, each);
  section.pairs.emplace_back(
      chart_of("Time by operator, " + label, {"ms of a step", kMilliseconds}, runs, each, ops,
               [](const OperatorTime& t) { return with_middle_half(t.seconds); }));
  const std::vector<std::string> shared = with_share(runs, each, ops);
  if (shared.empty()) return;
  CategoryChart share = chart_of("Share of the limit by operator, " + label,
                                 {"% of the limit of the machine at that moment", kPercent}, runs,
                                 each, shared, [](const OperatorTime& t) -> std::optional<Value> {
                                   if (t.share_of_limit.median <= 0) return std::nullopt;
                                   return with_middle_half(t.share_of_limit);
                                 });
  share.reference = Reference{1, "limit"};
  section.pairs.emplace_back(std::move(share));
}

Table table_of(const Runs& runs, const StepCase& each, const std::string& label) {
  const bool several = runs.size() > 1;
  Table table{"By operator, " + label, {{"operator"}}, {}};
  if (several) table.columns.push_back({"run"});
  table.columns.push_back({"ms/step", kMilliseconds});
  if (several) table.columns.push_back({"times as fast", kTimes});
  table.columns.insert(table.columns.end(), {{"% of time", kPercent},
                                             {"ms in kernels", kMilliseconds},
                                             {"MB/step", kMegabytes},
                                             {"GB/s", kGigabytesPerSecond},
                                             {"GFLOP/s", kGigaflops},
                                             {"% of limit", kPercent}});
  for (const std::string& op : ops_of(runs, each)) {
    const OperatorTime* first = find_op(runs[0], each, op);
    for (const Run<StepResults>& run : runs) {
      const OperatorTime* time = find_op(run, each, op);
      if (time == nullptr) continue;
      std::vector<Cell> row = {op};
      if (several) row.emplace_back(run.name);
      row.emplace_back(with_extremes(time->seconds));
      if (several) {
        row.emplace_back();
        const bool comparable =
            first != nullptr && first != time && first->seconds.min > 0 && time->seconds.min > 0;
        if (comparable) row.back() = ratio_of(time->seconds, first->seconds);
      }
      row.insert(row.end(),
                 {Value{time->share_of_time.median}, Value{time->kernel_seconds.median},
                  Value{time->bytes}, Value{time->gb_per_second.median},
                  Value{time->gflop_per_second.median}, Value{time->share_of_limit.median}});
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace

void add_operators(Section& section, const Runs& runs, const std::vector<StepCase>& cases) {
  std::vector<StepCase> with_ops;
  for (const StepCase& each : cases) {
    if (!ops_of(runs, each).empty()) with_ops.push_back(each);
  }
  for (const StepCase& each : with_ops) {
    const std::string label = full_label(each, cases);
    if (&each == &with_ops.front() || &each == &with_ops.back()) {
      add_charts(section, runs, each, label);
    }
    section.tables.push_back(table_of(runs, each, label));
  }
}

}  // namespace tessera::app::analyze
