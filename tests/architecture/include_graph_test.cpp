// The layers of src/, each allowed to include only itself and those before it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

// From the lowest up. text may read files through io; no other exception is needed.
constexpr std::array<std::string_view, 9> kLayers = {"base", "io",    "text",   "tile", "graph",
                                                     "ops",  "model", "engine", "app"};

constexpr std::size_t kMaxLines = 600;  // more than one person holds in the head

struct Source {
  std::string path;  // from the root of the repository
  std::vector<std::string> lines;

  bool is_test() const { return path.ends_with("_test.cpp"); }
};

std::vector<Source> sources_below(const std::string& folder) {
  const std::filesystem::path root = TESSERA_SOURCE_ROOT;
  std::vector<Source> sources;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const auto extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp") continue;
    Source source{std::filesystem::relative(entry.path(), root).generic_string(), {}};
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) source.lines.push_back(line);
    sources.push_back(std::move(source));
  }
  return sources;
}

// What stands between the quotes of an #include "..." line.
std::optional<std::string> quoted_include(std::string_view line) {
  constexpr std::string_view kStart = "#include \"";
  if (!line.starts_with(kStart)) return std::nullopt;
  line.remove_prefix(kStart.size());
  return std::string(line.substr(0, line.find('"')));
}

std::string first_folder(std::string_view path) {
  return std::string(path.substr(0, path.find('/')));
}

std::size_t rank(std::string_view layer) {
  return static_cast<std::size_t>(std::ranges::find(kLayers, layer) - kLayers.begin());
}

// "FILE:LINE includes "X"" for each include in `source`, a file of src/, that its layer may not
// have.
std::vector<std::string> violations(const Source& source) {
  const std::string layer = first_folder(std::string_view(source.path).substr(4));  // after "src/"
  std::vector<std::string> found;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const auto include = quoted_include(source.lines[i]);
    if (!include) continue;
    const std::string target = first_folder(*include);
    if (rank(target) == kLayers.size() || rank(target) > rank(layer)) {
      found.push_back(source.path + ":" + std::to_string(i + 1) + " includes \"" + *include + "\"");
    }
  }
  return found;
}

TEST(IncludeGraph, EveryFolderOfSrcIsALayer) {
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_SOURCE_ROOT "/src")) {
    if (!entry.is_directory()) continue;
    EXPECT_THAT(kLayers, ::testing::Contains(entry.path().filename().string()));
  }
}

TEST(IncludeGraph, NoLayerIncludesAHigherOne) {
  std::vector<std::string> found;
  for (const Source& source : sources_below("src")) {
    if (source.is_test()) continue;  // a test may use all of tests/
    const auto more = violations(source);
    found.insert(found.end(), more.begin(), more.end());
  }
  EXPECT_THAT(found, ::testing::IsEmpty());
}

TEST(IncludeGraph, AHigherLayerIsFound) {
  const Source source{"src/ops/x.h",
                      {"// x", "#include \"base/half.h\"", "#include \"model/x.h\""}};
  EXPECT_THAT(violations(source), ::testing::ElementsAre("src/ops/x.h:3 includes \"model/x.h\""));
}

TEST(IncludeGraph, IoDoesNotIncludeText) {
  const Source source{"src/io/x.cpp", {"#include \"text/x.h\""}};
  EXPECT_EQ(violations(source).size(), 1u);
}

TEST(IncludeGraph, AnUnknownFolderIsFound) {
  const Source source{"src/app/main.cpp", {"#include \"tests/compare.h\""}};
  EXPECT_EQ(violations(source).size(), 1u);
}

TEST(IncludeGraph, PublicHeadersNameNoInternalOnes) {
  for (const Source& source : sources_below("include")) {
    for (const std::string& line : source.lines) {
      EXPECT_EQ(quoted_include(line), std::nullopt) << source.path;
    }
  }
}

TEST(SourceFiles, AreShort) {
  std::size_t n_files = 0;
  for (const std::string folder : {"src", "include"}) {
    for (const Source& source : sources_below(folder)) {
      EXPECT_LE(source.lines.size(), kMaxLines) << source.path;
      ++n_files;
    }
  }
  EXPECT_GT(n_files, 50u);  // the folders were found
}

}  // namespace
}  // namespace tessera
