#include "app/compare/run.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "app/compare/child.h"
#include "app/compare/llama_bench.h"
#include "base/fail.h"
#include "io/json_file.h"

namespace tessera::app {

namespace {

constexpr std::array<std::string_view, 7> kNumbers = {"tokens_per_second",
                                                      "prefill_tokens_per_second",
                                                      "decode_tokens_per_second",
                                                      "generate_s",
                                                      "model_load_s",
                                                      "warmup_s",
                                                      "generate_peak_mem_mb"};

// One value for one prompt, a list of them for several.
template <typename Value>
std::vector<Value> of_each(const nlohmann::ordered_json& value, bool batch) {
  if (batch) return value.get<std::vector<Value>>();
  return {value.get<Value>()};
}

Run started_now() {
  Run run;
  run.started = utc_now();
  return run;
}

void read_report(const std::string& text, const Case& one, Run& run) {
  parse_json(text, "the report of ask");  // says where it is broken
  run.report = nlohmann::ordered_json::parse(text);
  for (const std::string_view key : kNumbers) {
    run.measured.emplace(key, run.report.at(key).get<double>());
  }
  const bool batch = one.batch > 1;
  run.measured.emplace(
      "time_to_first_token_s",
      std::ranges::max(of_each<double>(run.report.at("time_to_first_token_s"), batch)));
  run.prompt_ids = of_each<TokenIds>(run.report.at("prompt_ids"), batch);
  run.token_ids = of_each<TokenIds>(run.report.at("token_ids"), batch);
  run.text = of_each<std::string>(run.report.at("text"), batch);
  run.input_tokens = run.report.at("input_tokens").get<std::int64_t>();
  run.generated_tokens = run.report.at("generated_tokens").get<std::int64_t>();
  for (const char* key : {"prompt_ids", "token_ids", "text"}) run.report.erase(key);
}

std::vector<std::string> warnings_in(const std::string& err) {
  constexpr std::string_view kWarning = "tessera: warning: ";
  std::vector<std::string> warnings;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kWarning)) warnings.push_back(line.substr(kWarning.size()));
  }
  return warnings;
}

std::string replaced(std::string word, std::string_view name, std::int64_t value) {
  const std::string number = std::to_string(value);
  for (std::size_t at = 0; (at = word.find(name, at)) != std::string::npos; at += number.size()) {
    word.replace(at, name.size(), number);
  }
  return word;
}

}  // namespace

void check_flags(const std::vector<std::string>& flags, const std::string& option) {
  constexpr std::array<std::string_view, 5> kOurs = {"--model-path", "--prompt", "--sentence-file",
                                                     "--output-length", "--report-file"};
  for (const std::string& flag : flags) {
    std::string name = flag.substr(0, flag.find('='));
    std::ranges::replace(name, '_', '-');
    if (std::ranges::find(kOurs, name) == kOurs.end()) continue;
    fail(ErrorCode::kInvalidArgument,
         "{} holds {}, which the comparison sets itself, for both sides; leave it out", option,
         name);
  }
}

Run run_ask(const std::vector<std::string>& flags, const std::string& model, const Case& one,
            std::chrono::seconds timeout) {
  std::vector<std::string> words = {kOwnProgram, "ask"};
  words.insert(words.end(), {"--model-path=" + model, "--greedy",
                             "--output-length=" + std::to_string(one.output_tokens),
                             std::string("--report-file=") + kReportPath});
  for (const std::string& prompt : one.prompts) words.push_back("--prompt=" + prompt);
  words.insert(words.end(), flags.begin(), flags.end());

  Run run = started_now();
  const ChildResult child = run_child(words, timeout);
  run.wall_s = child.wall_s;
  run.failure = child.failure;
  run.warnings = warnings_in(child.err);
  if (!run.failure.empty()) return run;
  try {
    read_report(child.report, one, run);
  } catch (const Error& error) {
    run.failure = fmt::format("its report cannot be read: {}", error.what());
  }
  return run;
}

Run run_llama_bench(const std::vector<std::string>& command, const Run& ours,
                    std::chrono::seconds timeout) {
  std::vector<std::string> words;
  words.reserve(command.size());
  for (const std::string& word : command) {
    words.push_back(replaced(replaced(word, "{prompt_tokens}", ours.input_tokens),
                             "{generated_tokens}", ours.generated_tokens));
  }
  Run run = started_now();
  const ChildResult child = run_child(words, timeout);
  run.wall_s = child.wall_s;
  run.failure = child.failure;
  if (!run.failure.empty()) return run;
  try {
    run.measured = parse_llama_bench(child.out);
    run.report = nlohmann::ordered_json::parse(child.out);
  } catch (const Error& error) {
    run.failure = error.what();
  }
  return run;
}

std::string utc_now() {
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%SZ}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

}  // namespace tessera::app
