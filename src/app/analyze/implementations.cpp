#include "app/analyze/implementations.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "app/analyze/sections.h"

namespace tessera::app::analyze {

namespace {

const Axis kRows = {"rows (tokens of a call)", kCount, Scale::kLog2};

LineSeries series_of(const std::string& name, const std::vector<OperatorResult>& results,
                     const std::function<Measured(const Implementation&)>& y) {
  LineSeries series{name, {}};
  for (const OperatorResult& result : results) {
    const Implementation* implementation = find(result, name);
    if (implementation == nullptr) continue;
    series.points.push_back(
        {static_cast<double>(result.rows), with_middle_half(y(*implementation))});
  }
  std::ranges::sort(series.points, {}, &Point::x);
  return series;
}

LineChart chart_of(const std::string& title, const Axis& axis,
                   const std::vector<OperatorResult>& results,
                   const std::function<Measured(const Implementation&)>& y) {
  LineChart chart{title, kRows, axis, {}};
  for (const std::string& name : names_of(results)) {
    chart.series.push_back(series_of(name, results, y));
  }
  return chart;
}

}  // namespace

const Implementation* find(const OperatorResult& result, const std::string& name) {
  const auto found = std::ranges::find(result.implementations, name, &Implementation::name);
  return found == result.implementations.end() ? nullptr : &*found;
}

const OperatorResult* find(const std::vector<OperatorResult>& results, std::int64_t rows) {
  const auto found = std::ranges::find(results, rows, &OperatorResult::rows);
  return found == results.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const std::vector<OperatorResult>& results) {
  std::vector<std::string> names;
  for (const OperatorResult& result : results) {
    for (const Implementation& implementation : result.implementations) {
      if (std::ranges::find(names, implementation.name) == names.end()) {
        names.push_back(implementation.name);
      }
    }
  }
  return names;
}

std::string baseline_of(const std::vector<OperatorResult>& results) {
  for (const std::string& name : names_of(results)) {
    const bool always = std::ranges::all_of(results, [&](const OperatorResult& result) {
      const Implementation* each = find(result, name);
      return each != nullptr && each->times_as_fast.min == 1 && each->times_as_fast.max == 1;
    });
    if (always) return name;
  }
  return "";
}

LineChart time_chart(const std::string& title, const std::vector<OperatorResult>& results) {
  return chart_of(title, {"µs of a call", kMicroseconds, Scale::kLog10}, results,
                  [](const Implementation& i) { return i.seconds; });
}

LineChart times_as_fast_chart(const std::string& title,
                              const std::vector<OperatorResult>& results) {
  const std::string baseline = baseline_of(results);
  LineChart chart = chart_of(
      title, {"times as fast as " + (baseline.empty() ? "the baseline" : baseline), kTimes},
      results, [](const Implementation& i) { return i.times_as_fast; });
  std::erase_if(chart.series, [&](const LineSeries& series) { return series.name == baseline; });
  chart.reference = Reference{1, baseline.empty() ? "baseline" : baseline};
  chart.from_zero = false;
  return chart;
}

LineChart share_chart(const std::string& title, const std::vector<OperatorResult>& results) {
  LineChart chart = chart_of(title, {"% of the limit of the machine at that moment", kPercent},
                             results, [](const Implementation& i) { return i.share_of_limit; });
  chart.reference = Reference{1, "limit"};
  return chart;
}

Table implementations_table(const std::string& title, const std::vector<OperatorResult>& results) {
  const std::string baseline = baseline_of(results);
  Table table{title,
              {{"rows", kCount},
               {"implementation"},
               {"time, µs", kMicroseconds},
               {"times as fast as " + (baseline.empty() ? "the baseline" : baseline), kTimes},
               {"GB/s", kGigabytesPerSecond},
               {"GFLOP/s", kGigaflops},
               {"% of limit", kPercent}},
              {}};
  for (const OperatorResult& result : results) {
    for (const Implementation& i : result.implementations) {
      const Cell times = i.name == baseline ? Value{1} : with_extremes(i.times_as_fast);
      table.rows.push_back({Value{static_cast<double>(result.rows)}, i.name,
                            with_extremes(i.seconds), times, Value{i.gb_per_second.median},
                            Value{i.gflop_per_second.median}, with_extremes(i.share_of_limit)});
    }
  }
  return table;
}

Table runs_table(const std::string& title, const std::vector<NamedResults>& runs) {
  Table table{title,
              {{"rows", kCount},
               {"implementation"},
               {"run"},
               {"time, µs", kMicroseconds},
               {"times as fast as in " + runs[0].name, kTimes}},
              {}};
  for (const OperatorResult& result : *runs[0].results) {
    for (const Implementation& first : result.implementations) {
      for (const NamedResults& run : runs) {
        const OperatorResult* other = find(*run.results, result.rows);
        const Implementation* i = other == nullptr ? nullptr : find(*other, first.name);
        if (i == nullptr) continue;
        const bool is_first = &run == &runs[0];
        table.rows.push_back({Value{static_cast<double>(result.rows)}, first.name, run.name,
                              with_extremes(i->seconds),
                              is_first ? Cell() : Cell(ratio_of(i->seconds, first.seconds))});
      }
    }
  }
  return table;
}

LineChart runs_chart(const std::string& title, const std::vector<NamedResults>& runs) {
  LineChart chart{title, kRows, {"times as fast as in " + runs[0].name, kTimes}, {}};
  for (const std::string& name : names_of(*runs[0].results)) {
    for (std::size_t r = 1; r < runs.size(); ++r) {
      LineSeries series{runs.size() > 2 ? runs[r].name + ", " + name : name, {}};
      for (const OperatorResult& result : *runs[0].results) {
        const OperatorResult* other = find(*runs[r].results, result.rows);
        const Implementation* before = find(result, name);
        const Implementation* after = other == nullptr ? nullptr : find(*other, name);
        if (before == nullptr || after == nullptr) continue;
        series.points.push_back(
            {static_cast<double>(result.rows), ratio_of(after->seconds, before->seconds)});
      }
      std::ranges::sort(series.points, {}, &Point::x);
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
  }
  chart.reference = Reference{1, "as fast"};
  chart.from_zero = false;
  return chart;
}

}  // namespace tessera::app::analyze
