// The documents show what docs/results has: tables are closed and filled, the list of measurements
// leads to files and sections that exist, and rows that name a result file have its number. That
// whole tables are those of their files, tools/measure/tables.py --check says, which needs Python.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/text_file.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::filesystem::path kRoot = TESSERA_SOURCE_ROOT;
const std::filesystem::path kResults = kRoot / "docs" / "results";

const std::vector<std::string> kDocuments = {"README.md", "README.zh-CN.md", "docs/performance.md",
                                             "docs/benchmark_bs_comparison.md",
                                             "docs/long_seq_optimization.md"};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// What is wrong with the marks `<!-- table NAME -->` and `<!-- end -->` of a document.
std::vector<std::string> faults_of_tables(const std::string& text) {
  std::vector<std::string> faults;
  std::string open;  // the table that the line stands in
  bool empty = true;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("<!-- table ")) {
      if (!open.empty()) faults.push_back(open + " does not end");
      open = line.substr(11, line.find(" -->") - 11);
      empty = true;
    } else if (line == "<!-- end -->") {
      if (open.empty()) faults.push_back("an end without a table");
      if (!open.empty() && empty) faults.push_back(open + " is empty");
      open.clear();
    } else if (!line.empty()) {
      empty = false;
    }
  }
  if (!open.empty()) faults.push_back(open + " does not end");
  return faults;
}

// "What to expect" is #what-to-expect.
std::string anchor_of(std::string_view heading) {
  std::string anchor;
  for (char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ') anchor += '-';
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || byte >= 0x80) {
      anchor += static_cast<char>(std::tolower(byte));
    }
  }
  return anchor;
}

std::set<std::string> anchors_of(const std::string& text) {
  std::set<std::string> anchors;
  for (const std::string& line : lines_of(text)) {
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == std::string::npos || line[level] != ' ') continue;
    anchors.insert(anchor_of(std::string_view(line).substr(level + 1)));
  }
  return anchors;
}

// The targets of all links [..](TARGET) and images of a text.
std::vector<std::string> links_of(const std::string& text) {
  std::vector<std::string> links;
  for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
    links.push_back(text.substr(at + 2, text.find(')', at) - at - 2));
  }
  return links;
}

// Links of a document, at `path` from the root, to files or sections that are not there.
std::vector<std::string> dead_links(const std::string& path) {
  std::vector<std::string> dead;
  for (const std::string& link : links_of(read_text_file(kRoot / path))) {
    if (link.starts_with("http")) continue;
    const std::size_t hash = link.find('#');
    const std::string name = link.substr(0, hash);
    const std::filesystem::path file =
        name.empty() ? kRoot / path : (kRoot / path).parent_path() / name;
    const bool section = hash == std::string::npos ||
                         (std::filesystem::is_regular_file(file) &&
                          anchors_of(read_text_file(file)).contains(link.substr(hash + 1)));
    if (!std::filesystem::exists(file) || !section) dead.push_back(path + ": " + link);
  }
  return dead;
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::size_t at = 1;
  for (std::size_t end = row.find('|', at); end != std::string::npos; end = row.find('|', at)) {
    std::string_view cell = std::string_view(row).substr(at, end - at);
    while (cell.starts_with(' ')) cell.remove_prefix(1);
    while (cell.ends_with(' ')) cell.remove_suffix(1);
    cells.emplace_back(cell);
    at = end + 1;
  }
  return cells;
}

// As tables write a rate.
std::string rate_text(double rate) {
  if (rate < 100) return fmt::format("{:.1f}", rate);
  std::string digits = fmt::format("{:.0f}", rate);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::set<std::string> rates_of(const std::string& result) {
  std::set<std::string> rates;
  const nlohmann::json file = read_json_file(kResults / (result + ".json"));
  for (const nlohmann::json& row : file.at("results")) {
    rates.insert(rate_text(row.at("tokens_per_second").at("median").get<double>()));
  }
  return rates;
}

std::vector<std::filesystem::path> result_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kResults)) {
    if (entry.path().filename() != "README.md") files.push_back(entry.path());
  }
  return files;
}

TEST(Documents, TablesAreClosedAndFilled) {
  for (const std::string& path : kDocuments) {
    EXPECT_THAT(faults_of_tables(read_text_file(kRoot / path)), IsEmpty()) << path;
  }
}

TEST(Documents, FaultsOfTablesAreFound) {
  EXPECT_THAT(faults_of_tables("<!-- table a -->\n<!-- end -->\n<!-- end -->\n"),
              ElementsAre("a is empty", "an end without a table"));
  EXPECT_THAT(faults_of_tables("<!-- table a -->\nx\n<!-- table b -->\nx\n"),
              ElementsAre("a does not end", "b does not end"));
}

TEST(Documents, LinksLeadSomewhere) {
  std::vector<std::string> paths = kDocuments;
  paths.emplace_back("docs/results/README.md");
  for (const std::string& path : paths) EXPECT_THAT(dead_links(path), IsEmpty());
}

TEST(Documents, AnchorsAreThoseOfHeadings) {
  EXPECT_THAT(anchors_of("# A b\ntext\n### C: d, 2\n"), ElementsAre("a-b", "c-d-2"));
  EXPECT_THAT(links_of("[a](b.md#c) ![d](e.svg)"), ElementsAre("b.md#c", "e.svg"));
}

TEST(Documents, TheListHasEveryResultFile) {
  const std::vector<std::string> links = links_of(read_text_file(kResults / "README.md"));
  const std::vector<std::filesystem::path> files = result_files();
  EXPECT_GT(files.size(), 20u);  // the folder was found
  for (const auto& path : files) EXPECT_THAT(links, ::testing::Contains(path.filename().string()));
}

TEST(Documents, BothReadmesShowTheSameTables) {
  const auto names = [](const std::string& path) {
    std::vector<std::string> found;
    for (const std::string& line : lines_of(read_text_file(kRoot / path))) {
      if (!line.starts_with("<!-- table ")) continue;
      const std::string name = line.substr(11, line.find(" -->") - 11);
      found.push_back(name.ends_with("-zh") ? name.substr(0, name.size() - 3) : name);
    }
    return found;
  };
  EXPECT_EQ(names("README.md"), names("README.zh-CN.md"));
}

// Rows whose last cell is `NAME`: the first cell with a number is a rate of docs/results/NAME.json.
TEST(Documents, RowsThatNameAResultHaveItsNumber) {
  std::size_t n_rows = 0;
  for (const std::string& line : lines_of(read_text_file(kRoot / "docs/performance.md"))) {
    if (!line.starts_with("| ")) continue;
    const std::vector<std::string> cells = cells_of(line);
    const std::string& last = cells.back();
    if (cells.size() < 4 || !last.starts_with('`') || !last.ends_with('`')) continue;
    EXPECT_THAT(rates_of(last.substr(1, last.size() - 2)), ::testing::Contains(cells[2])) << line;
    ++n_rows;
  }
  EXPECT_GT(n_rows, 10u);
}

TEST(Documents, RatesAreWrittenAsInTables) {
  EXPECT_EQ(rate_text(9.449), "9.4");
  EXPECT_EQ(rate_text(124.4), "124");
  EXPECT_EQ(rate_text(16264.8), "16,265");
  EXPECT_THAT(cells_of("| a | 1,000 |  |"), ElementsAre("a", "1,000", ""));
}

TEST(Documents, ResultsNameNoFolders) {
  for (const auto& path : result_files()) {
    const std::string text = read_text_file(path);
    EXPECT_EQ(text.find("\"/"), std::string::npos) << path;
    EXPECT_EQ(text.find(" /"), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace tessera
