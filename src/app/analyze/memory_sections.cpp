// What weights, cache and process take.
#include <algorithm>

#include <fmt/format.h>

#include "app/analyze/sections.h"

namespace tessera::app::analyze {

namespace {

using Runs = std::vector<Run<MemoryResults>>;

std::vector<MemoryPart> process_of(const MemoryResults& m) {
  return {{"weights", m.weight_bytes},
          {"cache", m.cache_bytes},
          {"resident after loading", m.resident_bytes},
          {"peak of loading", m.load_peak_bytes},
          {"peak of running", m.peak_bytes}};
}

using Parts = std::vector<MemoryPart> (*)(const MemoryResults&);

CategoryChart chart_of(const std::string& title, const Runs& runs, Parts parts_of) {
  CategoryChart chart{title, {"MB (10^6 bytes)", kMegabytes}, {}, {}};
  for (const Run<MemoryResults>& run : runs) {
    for (const MemoryPart& part : parts_of(run.results)) {
      if (std::ranges::find(chart.categories, part.name) == chart.categories.end()) {
        chart.categories.push_back(part.name);
      }
    }
  }
  for (const Run<MemoryResults>& run : runs) {
    CategorySeries series{runs.size() > 1 ? run.name : "", {}};
    const std::vector<MemoryPart> parts = parts_of(run.results);
    for (const std::string& name : chart.categories) {
      const auto found = std::ranges::find(parts, name, &MemoryPart::name);
      series.values.push_back(found == parts.end() ? std::nullopt
                                                   : std::optional(Value{found->bytes}));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// The charts' numbers, and with several runs the ratio to the first.
Table table_of(const std::vector<CategoryChart>& charts, const Runs& runs) {
  Table table{"Memory", {{"what"}}, {}};
  for (const Run<MemoryResults>& run : runs) {
    table.columns.push_back({runs.size() > 1 ? run.name + ", MB" : "MB", kMegabytes});
    if (&run != &runs[0]) table.columns.push_back({"of " + runs[0].name, kTimes});
  }
  for (const CategoryChart& chart : charts) {
    for (std::size_t c = 0; c < chart.categories.size(); ++c) {
      std::vector<Cell> row = {chart.categories[c]};
      const std::optional<Value>& first = chart.series[0].values[c];
      for (std::size_t r = 0; r < runs.size(); ++r) {
        const std::optional<Value>& value = chart.series[r].values[c];
        row.emplace_back();
        if (value) row.back() = *value;
        if (r == 0) continue;
        row.emplace_back();
        if (value && first && first->median > 0) row.back() = Value{value->median / first->median};
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace

std::vector<Section> memory_sections(const Runs& runs) {
  if (runs.empty()) return {};
  Section section{"Memory", {}, {}, {}, {}};
  for (const Run<MemoryResults>& run : runs) {
    section.notes.push_back(fmt::format(
        "{}context {}, batch {}: {} MB at most, of which the weights take {} and the cache {} "
        "({} bytes a token).",
        runs.size() > 1 ? run.name + ": " : "With ", run.results.context, run.results.batch,
        kMegabytes.text(run.results.peak_bytes), kMegabytes.text(run.results.weight_bytes),
        kMegabytes.text(run.results.cache_bytes), kCount.text(run.results.cache_bytes_per_token)));
  }
  const std::vector<CategoryChart> charts = {
      chart_of("Memory of the process", runs, process_of),
      chart_of("Weights", runs, [](const MemoryResults& m) { return m.weights; })};
  for (const CategoryChart& chart : charts) {
    if (!chart.categories.empty()) section.charts.emplace_back(chart);
  }
  section.tables.push_back(table_of(charts, runs));
  return {std::move(section)};
}

}  // namespace tessera::app::analyze
