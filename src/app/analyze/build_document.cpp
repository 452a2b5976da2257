#include "app/analyze/build_document.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "app/analyze/sections.h"
#include "app/analyze/step_cases.h"

namespace tessera::app::analyze {

namespace {

// Names for charts: the file's name without its folder and ending, or the whole path where two have
// the same, numbered where one path is given twice.
std::vector<std::string> names_of(const std::vector<ResultFile>& files) {
  std::vector<std::string> names;
  for (const ResultFile& file : files) {
    names.push_back(std::filesystem::path(file.path).stem().string());
  }
  const std::vector<std::string> stems = names;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (std::ranges::count(stems, stems[i]) > 1) names[i] = files[i].path;
  }
  std::set<std::string> taken;
  for (std::string& name : names) {
    const std::string wanted = name;
    for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{} ({})", wanted, n);
  }
  return names;
}

template <typename R>
std::vector<Run<R>> runs_of(const std::vector<ResultFile>& files,
                            const std::vector<std::string>& names) {
  std::vector<Run<R>> runs;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const R* results = std::get_if<R>(&files[i].results);
    if (results != nullptr) runs.push_back({names[i], files[i].setup, *results});
  }
  return runs;
}

bool is_prefill(const Run<StepResults>& run) {
  return run.setup.command == "bench prefill";
}

// decode and batch differ in nothing but their default sizes.
bool same_setup(Setup a, Setup b) {
  a.command = b.command = "";
  return a == b;
}

bool share_a_case(const StepResults& a, const StepResults& b) {
  return std::ranges::any_of(
      a.results, [&](const StepResult& result) { return find(b, case_of(result)) != nullptr; });
}

std::vector<Run<StepResults>> joined(const std::vector<Run<StepResults>>& files, bool prefill) {
  std::vector<Run<StepResults>> runs;
  for (const Run<StepResults>& file : files) {
    if (is_prefill(file) != prefill) continue;
    const auto run = std::ranges::find_if(runs, [&](const Run<StepResults>& other) {
      return same_setup(other.setup, file.setup) && !share_a_case(other.results, file.results);
    });
    if (run == runs.end()) {
      runs.push_back(file);
      continue;
    }
    run->name += " + " + file.name;
    run->results.results.insert(run->results.results.end(), file.results.results.begin(),
                                file.results.results.end());
  }
  return runs;
}

struct SetupField {
  std::string_view name;
  std::string Setup::* member;
};

constexpr std::array kSetupFields = {
    SetupField{"command", &Setup::command}, SetupField{"version", &Setup::version},
    SetupField{"CPU", &Setup::cpu},         SetupField{"compiled for", &Setup::target_cpu},
    SetupField{"threads", &Setup::threads}, SetupField{"model", &Setup::model},
    SetupField{"layers", &Setup::layers},   SetupField{"dtype", &Setup::dtype},
    SetupField{"mode", &Setup::mode},       SetupField{"kernels", &Setup::kernels},
};

// What all files have in common in sentences, the rest in a table.
Section setup_section(const std::vector<ResultFile>& files, const std::vector<std::string>& names) {
  Section section{"Files", {}, {}, {}};
  std::vector<const SetupField*> differing;
  std::string common;
  for (const SetupField& field : kSetupFields) {
    const std::string& first = files[0].setup.*field.member;
    const bool same = std::ranges::all_of(
        files, [&](const ResultFile& file) { return file.setup.*field.member == first; });
    if (!same) {
      differing.push_back(&field);
    } else if (!first.empty()) {
      common += fmt::format("{}{} {}", common.empty() ? "" : "; ", field.name, first);
    }
  }
  if (!common.empty()) {
    section.notes.push_back(
        fmt::format("{}{}.", files.size() > 1 ? "All files have in common: " : "", common));
  }
  Table table{"Files", {{"name"}, {"file"}}, {}};
  for (const SetupField* field : differing) table.columns.push_back({std::string(field->name)});
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::vector<Cell> row = {names[i], files[i].path};
    for (const SetupField* field : differing) row.emplace_back(files[i].setup.*field->member);
    table.rows.push_back(std::move(row));
  }
  section.tables.push_back(std::move(table));
  return section;
}

void append(std::vector<Section>& sections, std::vector<Section> more) {
  for (Section& section : more) sections.push_back(std::move(section));
}

}  // namespace

Document build_document(const std::vector<ResultFile>& files) {
  Document document{"Measurements of Tessera", {}};
  if (files.empty()) return document;
  const std::vector<std::string> names = names_of(files);
  document.sections.push_back(setup_section(files, names));
  const auto steps = runs_of<StepResults>(files, names);
  append(document.sections, comparison_sections(runs_of<ComparisonResults>(files, names)));
  append(document.sections, step_sections("Decoding", joined(steps, false)));
  append(document.sections, step_sections("Prefill", joined(steps, true)));
  append(document.sections, prolog_sections(runs_of<PrologResults>(files, names)));
  append(document.sections, kernel_sections(runs_of<KernelResults>(files, names)));
  append(document.sections, memory_sections(runs_of<MemoryResults>(files, names)));
  return document;
}

}  // namespace tessera::app::analyze
