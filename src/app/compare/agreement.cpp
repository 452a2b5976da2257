#include "app/compare/agreement.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <stdlib.h>

#include "app/arguments.h"
#include "app/compare/child.h"
#include "app/model_options.h"
#include "base/fail.h"
#include "io/safetensors.h"

namespace tessera::app {

namespace {

namespace fs = std::filesystem;

std::optional<std::int32_t> token_at(const TokenIds& ids, std::size_t position) {
  if (position >= ids.size()) return std::nullopt;
  return ids[position];
}

// Of the flags of ask those that say which model runs and how, which `logits` has too.
std::vector<std::string> model_flags(const std::vector<std::string>& flags) {
  CLI::App root;
  ModelOptions ignored;
  CLI::App* ask = root.add_subcommand("ask");
  ask->allow_extras();
  add_model_options(*ask, ignored);
  std::vector<std::string> words = {"ask"};
  words.insert(words.end(), flags.begin(), flags.end());
  words = normalised(root, std::move(words));
  std::ranges::reverse(words);  // what CLI::App::parse(vector) takes
  root.parse(words);
  std::vector<std::string> result;
  for (const CLI::Option* option : ask->get_options()) {
    if (option->count() == 0) continue;
    result.push_back("--" + option->get_lnames().front());
    if (option->get_items_expected_max() > 0) result.push_back(option->results().front());
  }
  return result;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "tessera-compare-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      fail(ErrorCode::kIo, "{}: cannot be made ({})", name, std::strerror(errno));
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

// Why it failed; empty: the file is there.
std::string write_logits(const std::vector<std::string>& flags, const std::string& model,
                         const TokenIds& ids, const std::string& file,
                         std::chrono::seconds timeout) {
  std::vector<std::string> words = {kOwnProgram, "logits"};
  words.insert(words.end(), {"--model-path=" + model, "--output=" + file,
                             fmt::format("--ids={}", fmt::join(ids, ","))});
  words.insert(words.end(), flags.begin(), flags.end());
  return run_child(words, timeout).failure;
}

// From row first_row on, of two files whose logits have the same shape.
double largest_difference(const std::string& a_file, const std::string& b_file,
                          std::size_t first_row) {
  const auto a = SafetensorsFile::open(a_file);
  const auto b = SafetensorsFile::open(b_file);
  const SafetensorsEntry& a_entry = *a.find("logits");
  const std::size_t columns = static_cast<std::size_t>(a_entry.shape[1]);
  double largest = 0;
  for (std::size_t i = first_row * columns; i < a_entry.n_bytes / sizeof(float); ++i) {
    float x = 0;
    float y = 0;
    std::memcpy(&x, a.bytes(a_entry).data() + i * sizeof(float), sizeof(float));
    std::memcpy(&y, b.bytes(*b.find("logits")).data() + i * sizeof(float), sizeof(float));
    largest = std::max(largest, std::abs(static_cast<double>(x) - static_cast<double>(y)));
  }
  return largest;
}

}  // namespace

std::optional<Difference> first_difference(const std::vector<TokenIds>& a,
                                           const std::vector<TokenIds>& b) {
  for (std::size_t s = 0; s < a.size(); ++s) {
    if (a[s] == b[s]) continue;
    const auto [at_a, at_b] = std::ranges::mismatch(a[s], b[s]);
    const auto position = static_cast<std::size_t>(at_a - a[s].begin());
    return Difference{s, position, token_at(a[s], position), token_at(b[s], position)};
  }
  return std::nullopt;
}

LogitsComparison compare_logits(const std::vector<std::string>& a_flags,
                                const std::vector<std::string>& b_flags, const std::string& model,
                                const Run& a, std::chrono::seconds timeout) {
  const TemporaryFolder folder;
  const std::string a_file = folder.file("a.safetensors");
  const std::string b_file = folder.file("b.safetensors");
  const std::vector<std::string> a_words = model_flags(a_flags);
  const std::vector<std::string> b_words = model_flags(b_flags);
  LogitsComparison result;
  std::set<TokenIds> done;  // of a batch with the same prompt twice
  for (std::size_t s = 0; s < a.prompt_ids.size(); ++s) {
    TokenIds ids = a.prompt_ids[s];
    ids.insert(ids.end(), a.token_ids[s].begin(), a.token_ids[s].end());
    ids.pop_back();  // the last token was chosen before it was read
    if (!done.insert(ids).second) continue;
    for (const auto& [words, file, side] :
         {std::tuple(&a_words, &a_file, "A"), std::tuple(&b_words, &b_file, "B")}) {
      const std::string failure = write_logits(*words, model, ids, *file, timeout);
      if (failure.empty()) continue;
      result.failure = fmt::format("{}, tessera logits: {}", side, failure);
      return result;
    }
    const std::size_t first_row = a.prompt_ids[s].size() - 1;
    result.max_abs_difference =
        std::max(result.max_abs_difference, largest_difference(a_file, b_file, first_row));
    result.positions += static_cast<std::int64_t>(ids.size() - first_row);
  }
  return result;
}

}  // namespace tessera::app
