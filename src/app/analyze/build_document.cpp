#include "app/analyze/build_document.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
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

// A file's eager and replayed steps are two runs, side by side as those of two files are.
std::vector<Run<StepResults>> step_runs(const std::vector<ResultFile>& files,
                                        const std::vector<std::string>& names) {
  std::vector<Run<StepResults>> runs;
  for (const Run<StepResults>& file : runs_of<StepResults>(files, names)) {
    const auto run = [&](bool replayed) {
      Run<StepResults> part{file.name, file.setup, {}};
      std::ranges::copy_if(file.results.results, std::back_inserter(part.results.results),
                           [&](const StepResult& r) { return r.replayed == replayed; });
      if (replayed) part.setup.mode += ", replayed";
      if (part.results.results.size() < file.results.results.size()) {
        part.name += replayed ? ", replayed" : ", eager";
      }
      return part;
    };
    for (const bool replayed : {false, true}) {
      Run<StepResults> part = run(replayed);
      if (!part.results.results.empty()) runs.push_back(std::move(part));
    }
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

// One property of the files; empty where a file does not say.
struct Property {
  std::string name;
  std::vector<std::string> values;

  std::string common() const;  // empty where they differ
};

std::string Property::common() const {
  std::string value;
  for (const std::string& each : values) {
    if (each.empty()) continue;
    if (!value.empty() && each != value) return "";
    value = each;
  }
  return value;
}

std::vector<Property> properties_of(const std::vector<ResultFile>& files) {
  std::vector<Property> properties = {
      {"command", {}}, {"version", {}}, {"CPU", {}},    {"CPUs", {}},  {"target", {}},
      {"threads", {}}, {"model", {}},   {"layers", {}}, {"dtype", {}}, {"mode", {}}};
  std::set<std::string> ops;
  for (const ResultFile& file : files) {
    const Setup& s = file.setup;
    const std::array values = {s.command,    s.version, s.cpu,   std::to_string(s.cpus),
                               s.target_cpu, s.threads, s.model, s.layers,
                               s.dtype,      s.mode};
    for (std::size_t i = 0; i < values.size(); ++i) properties[i].values.push_back(values[i]);
    for (const auto& [op, kernel] : s.kernels) ops.insert(op);
  }
  for (const std::string& op : ops) {
    Property& property = properties.emplace_back(Property{op, {}});
    for (const ResultFile& file : files) {
      const auto kernel = file.setup.kernels.find(op);
      property.values.push_back(kernel == file.setup.kernels.end() ? "" : kernel->second);
    }
  }
  return properties;
}

// What the files have in common in a sentence, the rest in a table.
Section setup_section(const std::vector<ResultFile>& files, const std::vector<std::string>& names) {
  Section section{"Files", {}, {}, {}, {}};
  Table table{"Files", {{"name"}, {"file"}}, {}};
  for (std::size_t i = 0; i < files.size(); ++i) table.rows.push_back({names[i], files[i].path});
  std::string common;
  for (const Property& property : properties_of(files)) {
    const std::string value = property.common();
    if (!value.empty()) {
      common += fmt::format("{}{} {}", common.empty() ? "" : "; ", property.name, value);
      continue;
    }
    if (std::ranges::all_of(property.values, &std::string::empty)) continue;
    table.columns.push_back({property.name});
    for (std::size_t i = 0; i < files.size(); ++i) table.rows[i].emplace_back(property.values[i]);
  }
  if (!common.empty()) {
    section.notes.push_back(fmt::format(
        "{}{}.", files.size() > 1 ? "The same in every file that says it: " : "", common));
  }
  section.notes.emplace_back(
      "Charts show medians, and by thin lines where the middle half of the samples lies; brackets "
      "in tables hold the smallest and the largest sample. Ratios have intervals of confidence.");
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
  const auto steps = step_runs(files, names);
  append(document.sections, comparison_sections(runs_of<ComparisonResults>(files, names)));
  append(document.sections, step_sections("Decoding", joined(steps, false)));
  append(document.sections, step_sections("Prefill", joined(steps, true)));
  append(document.sections, prolog_sections(runs_of<PrologResults>(files, names)));
  append(document.sections, kernel_sections(runs_of<KernelResults>(files, names)));
  append(document.sections, memory_sections(runs_of<MemoryResults>(files, names)));
  return document;
}

}  // namespace tessera::app::analyze
