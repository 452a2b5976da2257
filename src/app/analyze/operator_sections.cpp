// The KV prolog and the small operators: which implementation is the fastest for how many rows.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "app/analyze/implementations.h"
#include "app/analyze/sections.h"

namespace tessera::app::analyze {

namespace {

// Half of hybrid, measured by itself: no competitor of the others.
constexpr std::string_view kPart = "stage 2";

void add_run(Section& section, const Run<PrologResults>& run, const std::string& suffix) {
  const PrologResults& r = run.results;
  LineChart time = time_chart("Time of the KV prolog" + suffix, r.results);
  LineChart times = times_as_fast_chart("Implementations over rows" + suffix, r.results);
  std::erase_if(times.series, [](const LineSeries& series) { return series.name == kPart; });
  for (const Crossover& c : r.crossovers) {
    section.notes.push_back(fmt::format("{}From {} rows {} is faster than {}.",
                                        suffix.empty() ? "" : run.name + ": ", c.rows, c.to,
                                        c.from));
    times.marks.push_back({static_cast<double>(c.rows), "→ " + c.to});
  }
  if (r.crossovers.empty() && r.results.size() > 1) {
    section.notes.push_back(fmt::format("{}One implementation is the fastest for all rows.",
                                        suffix.empty() ? "" : run.name + ": "));
  }
  for (const Skipped& s : r.skipped) {
    section.notes.push_back(fmt::format("{}{} was skipped: it {}.",
                                        suffix.empty() ? "" : run.name + ": ", s.implementation,
                                        s.reason));
  }
  if (!times.series.empty()) section.charts.emplace_back(std::move(times));
  section.charts.emplace_back(std::move(time));
  section.charts.emplace_back(
      share_chart("Share of the limit of the KV prolog" + suffix, r.results));
  section.tables.push_back(implementations_table("KV prolog" + suffix, r.results));
}

// Marks of crossovers must lie within the rows that were measured.
std::vector<Crossover> within(const PrologResults& r) {
  std::vector<Crossover> crossovers = r.crossovers;
  std::erase_if(crossovers, [&](const Crossover& c) { return find(r.results, c.rows) == nullptr; });
  return crossovers;
}

bool has_values(const std::vector<OperatorResult>& results) {
  return !names_of(results).empty();
}

}  // namespace

std::vector<Section> prolog_sections(const std::vector<Run<PrologResults>>& all_runs) {
  std::vector<Section> sections;
  std::vector<std::string> titles;
  const auto title_of = [](const Run<PrologResults>& run) {
    return fmt::format("KV prolog, {} form{}{}", run.results.form,
                       run.setup.dtype.empty() ? "" : ", ", run.setup.dtype);
  };
  for (const Run<PrologResults>& run : all_runs) {
    if (!has_values(run.results.results)) continue;
    const std::string title = title_of(run);
    if (std::ranges::find(titles, title) == titles.end()) titles.push_back(title);
  }
  // Times of another form or type are no before and after.
  for (const std::string& title : titles) {
    std::vector<Run<PrologResults>> runs;
    for (const Run<PrologResults>& run : all_runs) {
      if (title_of(run) != title || !has_values(run.results.results)) continue;
      runs.push_back(run);
      runs.back().results.crossovers = within(run.results);
    }
    Section section{title, {}, {}, {}, {}};
    std::vector<NamedResults> named;
    for (const Run<PrologResults>& run : runs) {
      add_run(section, run, runs.size() > 1 ? ", " + run.name : "");
      named.push_back({run.name, &run.results.results});
    }
    if (runs.size() > 1) {
      LineChart chart =
          runs_chart("Speed-up over " + runs[0].name + ", with 95 % intervals", named);
      if (!chart.series.empty()) section.charts.emplace_back(std::move(chart));
      section.tables.push_back(runs_table("KV prolog, run against run", named));
    }
    sections.push_back(std::move(section));
  }
  return sections;
}

std::vector<Section> kernel_sections(const std::vector<Run<KernelResults>>& all_runs) {
  std::vector<std::string> cases;
  for (const Run<KernelResults>& run : all_runs) {
    for (const OperatorResult& result : run.results.results) {
      const bool known = std::ranges::find(cases, result.title) != cases.end();
      if (!known && !result.implementations.empty()) cases.push_back(result.title);
    }
  }
  if (cases.empty()) return {};
  Section section{"Norms and rotations", {}, {}, {}, {}};
  for (const std::string& title : cases) {
    std::vector<std::vector<OperatorResult>> of_case;
    std::vector<NamedResults> named;
    of_case.reserve(all_runs.size());  // named points into it
    for (const Run<KernelResults>& run : all_runs) {
      std::vector<OperatorResult> results = run.results.results;
      std::erase_if(results, [&](const OperatorResult& r) { return r.title != title; });
      if (!has_values(results)) continue;
      of_case.push_back(std::move(results));
      named.push_back({run.name, &of_case.back()});
    }
    for (const NamedResults& run : named) {
      const std::string suffix = all_runs.size() > 1 ? ", " + run.name : "";
      LineChart chart = times_as_fast_chart(title + suffix, *run.results);
      if (!chart.series.empty()) section.charts.emplace_back(std::move(chart));
      section.tables.push_back(implementations_table(title + suffix, *run.results));
    }
    if (named.size() < 2) continue;
    section.tables.push_back(runs_table(title + ", run against run", named));
  }
  return {std::move(section)};
}

}  // namespace tessera::app::analyze
