// Decoding and prefill: throughput, what the limits of the machine allow, and where the time goes.
#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "app/analyze/operator_tables.h"
#include "app/analyze/sections.h"
#include "app/analyze/step_cases.h"

namespace tessera::app::analyze {

namespace {

using Runs = std::vector<Run<StepResults>>;

// Curves of throughput over one field of the cases: for each run and each combination of the other
// fields that has at least two points.
std::vector<LineSeries> curves(const Runs& runs, const StepField& field,
                               const std::function<Value(const StepResult&)>& y) {
  struct Curve {
    const Run<StepResults>* run;
    StepCase rest;  // with 0 in the field
    std::map<double, Value> points;
  };
  std::vector<Curve> all;
  for (const Run<StepResults>& run : runs) {
    for (const StepResult& result : run.results.results) {
      StepCase rest = case_of(result);
      const auto x = static_cast<double>(rest.*field.member);
      rest.*field.member = 0;
      const auto same = [&](const Curve& curve) { return curve.run == &run && curve.rest == rest; };
      auto found = std::ranges::find_if(all, same);
      if (found == all.end()) found = all.insert(all.end(), {&run, rest, {}});
      found->points.emplace(x, y(result));
    }
  }
  std::erase_if(all, [](const Curve& curve) { return curve.points.size() < 2; });
  std::vector<StepCase> rests;
  for (const Curve& curve : all) rests.push_back(curve.rest);
  std::vector<LineSeries> series;
  for (const Curve& curve : all) {
    std::string name = runs.size() > 1 ? curve.run->name : "";
    const std::string rest = label_of(curve.rest, rests);
    if (!rest.empty()) name += (name.empty() ? "" : ", ") + rest;
    LineSeries& line = series.emplace_back(LineSeries{name, {}});
    for (const auto& [x, value] : curve.points) line.points.push_back({x, value});
  }
  return series;
}

// 0 has no place on a logarithmic axis.
Scale scale_of(const std::vector<LineSeries>& series) {
  for (const LineSeries& line : series) {
    if (line.points.front().x <= 0) return Scale::kLinear;
  }
  return Scale::kLog2;
}

void add_throughput_curves(Section& section, const Runs& runs) {
  for (const StepField& field : kStepFields) {
    if (!field.chart) continue;
    const auto throughput = [](const StepResult& r) {
      return with_middle_half(r.tokens_per_second);
    };
    LineChart chart{fmt::format("Throughput by {}", field.name),
                    {field.axis, kCount},
                    {"tokens/s, all sequences together", kTokensPerSecond},
                    curves(runs, field, throughput)};
    if (chart.series.empty()) continue;
    chart.x.scale = scale_of(chart.series);
    if (runs.size() == 1 && chart.series.size() == 1) {  // room for what the machine allows
      chart.series[0].name = "measured";
      const auto limit = [](const StepResult& r) { return with_middle_half(r.limit); };
      chart.series.push_back(curves(runs, field, limit)[0]);
      chart.series[1].name = "limit of the machine, measured meanwhile";
    }
    section.charts.emplace_back(std::move(chart));
  }
}

// One value for each case and run.
CategoryChart chart_of(const std::string& title, const Axis& axis, const Runs& runs,
                       const std::vector<StepCase>& cases,
                       const std::function<Value(const StepResult&)>& y) {
  CategoryChart chart{title, axis, labels_of(cases), {}};
  for (const Run<StepResults>& run : runs) {
    CategorySeries series{runs.size() > 1 ? run.name : "", {}};
    for (const StepCase& each : cases) {
      const StepResult* result = find(run.results, each);
      series.values.push_back(result == nullptr ? std::nullopt : std::optional(y(*result)));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// Every run after the first against it, where both have the case.
void add_speedups(Section& section, const Runs& runs, const std::vector<StepCase>& cases) {
  CategoryChart chart{fmt::format("Speed-up over {}, with 95 % intervals", runs[0].name),
                      {"times as fast", kTimes},
                      {},
                      {}};
  chart.form = CategoryChart::Form::kIntervals;
  chart.reference = Reference{1, "as fast"};
  std::vector<StepCase> common;
  for (const StepCase& each : cases) {
    const auto has = [&](const Run<StepResults>& run) {
      return find(run.results, each) != nullptr;
    };
    if (has(runs[0]) && std::any_of(runs.begin() + 1, runs.end(), has)) common.push_back(each);
  }
  if (common.empty()) return;
  chart.categories = labels_of(common);
  for (std::size_t i = 1; i < runs.size(); ++i) {
    CategorySeries series{runs[i].name, {}};
    for (const StepCase& each : common) {
      const StepResult* a = find(runs[0].results, each);
      const StepResult* b = find(runs[i].results, each);
      if (b == nullptr) {
        series.values.emplace_back();
        continue;
      }
      series.values.emplace_back(ratio_of(a->tokens_per_second, b->tokens_per_second));
    }
    chart.series.push_back(std::move(series));
  }
  for (std::size_t i = 1; i < runs.size(); ++i) {
    for (std::size_t c = 0; c < common.size(); ++c) {
      const std::optional<Value>& value = chart.series[i - 1].values[c];
      if (!value || (c > 0 && c + 1 < common.size())) continue;
      section.notes.push_back(fmt::format("{} is {} times as fast as {} at {}.", runs[i].name,
                                          value_text(*value, {"", 1, 2}), runs[0].name,
                                          chart.categories[c]));
    }
  }
  section.charts.emplace_back(std::move(chart));
}

std::string limit_name(const std::string& limited_by) {
  return limited_by == "memory_read" ? "memory read"
         : limited_by == "dot_peak"  ? "dot peak"
                                     : limited_by;
}

void add_best(Section& section, const Runs& runs, const std::vector<StepCase>& cases) {
  for (const Run<StepResults>& run : runs) {
    const StepResult& best = *std::ranges::max_element(
        run.results.results, {}, [](const StepResult& r) { return r.tokens_per_second.median; });
    const std::string label = full_label(case_of(best), cases);
    section.notes.push_back(fmt::format(
        "{}{} tokens/s at {}: {} % of what the machine allowed meanwhile, limited by {}.",
        runs.size() > 1 ? run.name + ": " : "Most: ",
        kTokensPerSecond.text(best.tokens_per_second.median), label,
        Quantity{"", 100, 0}.text(best.share_of_limit.median), limit_name(best.limited_by)));
  }
}

Table table_of(const std::string& title, const Runs& runs, const std::vector<StepCase>& cases) {
  const bool several = runs.size() > 1;
  Table table{title, {}, {}};
  if (several) table.columns.push_back({"run"});
  for (const StepField& field : kStepFields) table.columns.push_back({field.column, kCount});
  table.columns.push_back({"tokens/s", kTokensPerSecond});
  if (several) table.columns.push_back({"times as fast", kTimes});
  table.columns.insert(table.columns.end(), {{"MB/token", kMegabytes},
                                             {"GB/s", kGigabytesPerSecond},
                                             {"GFLOP/s", kGigaflops},
                                             {"limit, tokens/s", kTokensPerSecond},
                                             {"limited by"},
                                             {"% of limit", kPercent}});
  for (const StepCase& each : cases) {
    for (const Run<StepResults>& run : runs) {
      const StepResult* r = find(run.results, each);
      if (r == nullptr) continue;
      std::vector<Cell> row;
      if (several) row.emplace_back(run.name);
      for (const StepField& field : kStepFields) {
        row.emplace_back(Value{static_cast<double>(each.*field.member)});
      }
      row.emplace_back(with_extremes(r->tokens_per_second));
      if (several) {
        const StepResult* first = find(runs[0].results, each);
        row.emplace_back();
        if (first != nullptr && first != r) {
          row.back() = ratio_of(first->tokens_per_second, r->tokens_per_second);
        }
      }
      row.insert(row.end(), {with_extremes(r->bytes_per_token), Value{r->gb_per_second.median},
                             Value{r->gflop_per_second.median}, Value{r->limit.median},
                             limit_name(r->limited_by), with_extremes(r->share_of_limit)});
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace

std::vector<Section> step_sections(const std::string& title, const Runs& all_runs) {
  Runs runs = all_runs;
  std::erase_if(runs, [](const Run<StepResults>& run) { return run.results.results.empty(); });
  if (runs.empty()) return {};
  Section section{title, {}, {}, {}, {}};
  const std::vector<StepCase> cases = cases_of(runs);
  add_best(section, runs, cases);
  add_throughput_curves(section, runs);
  if (section.charts.empty()) {
    section.charts.emplace_back(
        chart_of("Throughput", {"tokens/s, all sequences together", kTokensPerSecond}, runs, cases,
                 [](const StepResult& r) { return with_middle_half(r.tokens_per_second); }));
  }
  if (runs.size() > 1) add_speedups(section, runs, cases);
  CategoryChart share =
      chart_of("Share of the limit", {"% of the limit of the machine at that moment", kPercent},
               runs, cases, [](const StepResult& r) { return with_middle_half(r.share_of_limit); });
  share.reference = Reference{1, "limit"};
  section.charts.emplace_back(std::move(share));
  section.tables.push_back(table_of(title, runs, cases));
  add_operators(section, runs, cases);
  return {std::move(section)};
}

}  // namespace tessera::app::analyze
