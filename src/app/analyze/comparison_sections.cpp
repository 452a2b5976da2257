// Two sides in turn: bench compare.
#include <algorithm>
#include <array>
#include <compare>

#include <fmt/format.h>

#include "app/analyze/html_text.h"
#include "app/analyze/sections.h"

namespace tessera::app::analyze {

namespace {

using Runs = std::vector<Run<ComparisonResults>>;

constexpr std::size_t kPromptColumns = 24;

struct Case {
  std::int64_t batch;
  std::int64_t output_tokens;
  std::vector<std::string> prompts;

  auto operator<=>(const Case&) const = default;
};

Case case_of(const ComparisonCase& c) {
  return {c.batch, c.output_tokens, c.prompts};
}

const ComparisonCase* find(const ComparisonResults& results, const Case& wanted) {
  const auto found = std::ranges::find(results.cases, wanted, case_of);
  return found == results.cases.end() ? nullptr : &*found;
}

// Of all runs, in the order of the files.
std::vector<Case> cases_of(const Runs& runs) {
  std::vector<Case> cases;
  for (const Run<ComparisonResults>& run : runs) {
    for (const ComparisonCase& c : run.results.cases) {
      if (std::ranges::find(cases, case_of(c)) == cases.end()) cases.push_back(case_of(c));
    }
  }
  return cases;
}

// The first prompt belongs to it only where another case has the same numbers.
std::string label_of(const Case& each, const std::vector<Case>& among) {
  std::string label = fmt::format("batch {}, {} tokens", each.batch, each.output_tokens);
  const auto alike = std::ranges::count_if(among, [&](const Case& other) {
    return other.batch == each.batch && other.output_tokens == each.output_tokens;
  });
  if (alike > 1 && !each.prompts.empty()) {
    label += ", " + shortened(each.prompts[0], kPromptColumns);
  }
  return label;
}

struct StatusName {
  std::string_view status;
  std::string_view text;
};

constexpr std::array kStatusNames = {
    StatusName{"same", "≈ same"},          StatusName{"a_faster", "A is faster"},
    StatusName{"b_faster", "B is faster"}, StatusName{"inconclusive", "inconclusive"},
    StatusName{"different", "DIFFERENT"},  StatusName{"failed", "FAILED"},
};

std::string status_text(const std::string& status) {
  const auto found = std::ranges::find(kStatusNames, status, &StatusName::status);
  return found == kStatusNames.end() ? status : std::string(found->text);
}

std::string with_spaces(std::string text) {
  std::ranges::replace(text, '_', ' ');
  return text;
}

Value value_of_speedup(const Speedup& speedup) {
  return {speedup.median, speedup.low, speedup.high};
}

void add_notes(Section& section, const Runs& runs) {
  for (const Run<ComparisonResults>& run : runs) {
    const ComparisonResults& r = run.results;
    const std::string name = runs.size() > 1 ? run.name + ": " : "";
    section.notes.push_back(fmt::format("{}A is {}; B is {}.", name, r.a, r.b));
    if (r.cases.size() < r.n_cases) {
      section.notes.push_back(
          fmt::format("{}{} of {} cases are done.", name, r.cases.size(), r.n_cases));
    }
    for (const ComparisonCase& c : r.cases) {
      if (c.reason.empty()) continue;
      section.notes.push_back(fmt::format("{}batch {}, {} tokens: {}: {}", name, c.batch,
                                          c.output_tokens, status_text(c.status), c.reason));
    }
  }
}

void add_speedups(Section& section, const Runs& runs, const std::vector<Case>& cases) {
  CategoryChart chart{fmt::format("Speed-up of B over A, with {:.3g} % intervals",
                                  100 * runs[0].results.confidence),
                      {"times as fast", kTimes},
                      {},
                      {}};
  chart.form = CategoryChart::Form::kIntervals;
  chart.reference = Reference{1, "as fast"};
  std::vector<Case> told;
  for (const Case& each : cases) {
    const bool any = std::ranges::any_of(runs, [&](const Run<ComparisonResults>& run) {
      const ComparisonCase* c = find(run.results, each);
      return c != nullptr && c->speedup;
    });
    if (any) told.push_back(each);
  }
  if (told.empty()) return;
  for (const Case& each : told) chart.categories.push_back(label_of(each, cases));
  for (const Run<ComparisonResults>& run : runs) {
    CategorySeries series{runs.size() > 1 ? run.name : "", {}};
    for (const Case& each : told) {
      const ComparisonCase* c = find(run.results, each);
      const bool has = c != nullptr && c->speedup;
      series.values.push_back(has ? std::optional(value_of_speedup(*c->speedup)) : std::nullopt);
    }
    chart.series.push_back(std::move(series));
  }
  section.charts.emplace_back(std::move(chart));
}

// Throughput of both sides of one run.
void add_throughput(Section& section, const Run<ComparisonResults>& run, const std::string& suffix,
                    const std::vector<Case>& cases) {
  CategoryChart chart{"Throughput" + suffix,
                      {"tokens/s, all sequences together", kTokensPerSecond},
                      {},
                      {{"A: " + run.results.a, {}}, {"B: " + run.results.b, {}}}};
  for (const ComparisonCase& c : run.results.cases) {
    if (!c.speedup) continue;
    chart.categories.push_back(label_of(case_of(c), cases));
    chart.series[0].values.emplace_back(with_middle_half(*c.a));
    chart.series[1].values.emplace_back(with_middle_half(*c.b));
  }
  if (!chart.categories.empty()) section.charts.emplace_back(std::move(chart));
}

Table table_of(const Runs& runs, const std::vector<Case>& cases) {
  Table table{"Comparison", {}, {}};
  if (runs.size() > 1) table.columns.push_back({"run"});
  table.columns.insert(table.columns.end(), {{"batch", kCount},
                                             {"tokens", kCount},
                                             {"prompt"},
                                             {"A, tokens/s", kTokensPerSecond},
                                             {"B, tokens/s", kTokensPerSecond},
                                             {"B over A", kTimes},
                                             {"result"},
                                             {"answers"}});
  for (const Case& each : cases) {
    for (const Run<ComparisonResults>& run : runs) {
      const ComparisonCase* c = find(run.results, each);
      if (c == nullptr) continue;
      std::vector<Cell> row;
      if (runs.size() > 1) row.emplace_back(run.name);
      const std::string prompt =
          each.prompts.empty() ? "" : shortened(each.prompts[0], kPromptColumns);
      row.insert(row.end(), {Value{static_cast<double>(c->batch)},
                             Value{static_cast<double>(c->output_tokens)},
                             each.prompts.size() > 1 ? prompt + " …" : prompt});
      if (c->speedup) {
        row.insert(row.end(),
                   {with_extremes(*c->a), with_extremes(*c->b), value_of_speedup(*c->speedup)});
      } else {
        row.insert(row.end(), 3, Cell());
      }
      row.insert(row.end(), {status_text(c->status), with_spaces(c->exactness)});
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace

std::vector<Section> comparison_sections(const Runs& runs) {
  const std::vector<Case> cases = cases_of(runs);
  if (runs.empty()) return {};
  Section section{"Comparison", {}, {}, {}, {}};
  add_notes(section, runs);
  add_speedups(section, runs, cases);
  for (const Run<ComparisonResults>& run : runs) {
    add_throughput(section, run, runs.size() > 1 ? ", " + run.name : "", cases);
  }
  section.tables.push_back(table_of(runs, cases));
  return {std::move(section)};
}

}  // namespace tessera::app::analyze
