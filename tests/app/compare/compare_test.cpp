// tessera bench compare on the bundled model. No test looks at how fast a side is.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "tests/app/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::own_folder;
using testing::run_tessera;

using Arguments = std::vector<std::string>;

std::string result_path() {
  return own_folder() + "/results.json";
}

CommandResult compare(Arguments arguments) {
  arguments.insert(arguments.begin(), {"bench", "compare", "--json", result_path()});
  return run_tessera(arguments);
}

// With the exit code that is expected.
nlohmann::json results_of(const Arguments& arguments, int exit_code = 0) {
  const CommandResult result = compare(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
  return read_json_file(result_path());
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

// Every key of the objects in it, with its place: "/results/*/a/text". What is null has no place
// below it.
void collect_keys(const nlohmann::json& json, const std::string& place,
                  std::set<std::string>& keys) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      const std::string inner = fmt::format("{}/{}", place, key);
      keys.insert(inner);
      collect_keys(value, inner, keys);
    }
  } else if (json.is_array()) {
    for (const nlohmann::json& element : json) collect_keys(element, place + "/*", keys);
  }
}

std::set<std::string> keys_of(const nlohmann::json& json) {
  std::set<std::string> keys;
  collect_keys(json, "", keys);
  return keys;
}

TEST(Compare, TheFileOfResultsHasEveryNumber) {
  const nlohmann::json file =
      results_of({"--batch", "1,2", "--output-tokens", "4", "--prompt", "你好", "--repeat", "3",
                  "--a", "--baseline --threads 1", "--b", "--use_kv_fusion --threads 1"});
  EXPECT_EQ(file["complete"], true);
  EXPECT_EQ(file["a"],
            (nlohmann::json{{"kind", "ask"}, {"flags", {"--baseline", "--threads", "1"}}}));
  EXPECT_EQ(file["settings"]["repeat"], 3);
  ASSERT_EQ(file["results"].size(), 2u);
  for (const nlohmann::json& result : file["results"]) {
    EXPECT_EQ(result["exactness"], "equal");
    std::string sides;
    std::vector<int> rounds;
    std::map<std::string, std::vector<double>> rates;
    for (const nlohmann::json& run : result["runs"]) {
      const std::string side = run["side"];
      sides += side;
      rounds.push_back(run["round"]);
      const bool batch = result["batch"] == 2;
      EXPECT_EQ(run["report"]["generated_tokens"], batch ? 8 : 4);
      if (run["round"] >= 0) rates[side].push_back(run["report"]["tokens_per_second"]);
    }
    EXPECT_EQ(sides, "abbaabba");
    EXPECT_EQ(rounds, (std::vector<int>{-1, -1, 0, 0, 1, 1, 2, 2}));
    std::vector<double> ratios;
    ratios.reserve(3);
    for (std::size_t i = 0; i < 3; ++i) ratios.push_back(rates["b"][i] / rates["a"][i]);
    EXPECT_EQ(result["speedup"]["samples"], ratios);
    EXPECT_EQ(result["speedup"]["median"], median(ratios));
    EXPECT_LE(result["speedup"]["low"], result["speedup"]["median"]);
    EXPECT_LE(result["speedup"]["median"], result["speedup"]["high"]);
    for (const char* side : {"a", "b"}) {
      EXPECT_EQ(result[side]["tokens_per_second"]["samples"], rates[side]);
      EXPECT_EQ(result[side]["tokens_per_second"]["median"], median(rates[side]));
      EXPECT_EQ(result[side]["threads"], 1);
    }
    EXPECT_EQ(result["a"]["kernels"]["mla_prolog"], "native");
    EXPECT_EQ(result["b"]["kernels"]["mla_prolog"], "latent");
    EXPECT_EQ(result["a"]["token_ids"], result["b"]["token_ids"]);
    EXPECT_EQ(result["a"]["token_ids"].size(), result["batch"]);
  }
}

TEST(Compare, TheExampleHasTheKeysOfToday) {
  const nlohmann::json file =
      results_of({"--batch", "1,2", "--output-tokens", "2", "--repeat", "2", "--warmup", "0"});
  EXPECT_EQ(keys_of(file),
            keys_of(read_json_file(TESSERA_TEST_DATA "/compare/example_results.json")));
}

TEST(Compare, PrintsATable) {
  const CommandResult result =
      compare({"--output-tokens", "2", "--prompt", "Hello", "--repeat", "1", "--warmup", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("A  tessera ask --baseline --use-graph\n"
                                    "B  tessera ask --use-pto --use-rope --use-kv-fusion "
                                    "--use-graph\n"));
  EXPECT_THAT(result.out, HasSubstr(" equal "));
  EXPECT_THAT(result.out, HasSubstr(" Hello\n"));
  EXPECT_THAT(result.out, HasSubstr("One round shows no spread"));
  EXPECT_EQ(read_json_file(result_path())["results"][0]["speedup"]["low"], nullptr);
}

TEST(Compare, WarningsOfASideAreTold) {
  const CommandResult result =
      compare({"--output-tokens", "1", "--b", "--baseline --warmup-seq-lens 500", "--repeat", "2"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, ::testing::StartsWith("tessera: warning: B: the warm-up with 500 "));
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1);  // once, not for every run
  const nlohmann::json runs = read_json_file(result_path())["results"][0]["runs"];
  EXPECT_EQ(runs[0]["warnings"].size(), 0u);
  EXPECT_EQ(runs[1]["warnings"].size(), 1u);
}

TEST(Compare, ABatchTakesThePromptsInTurn) {
  const nlohmann::json file =
      results_of({"--batch", "2", "--output-tokens", "1", "--repeat", "1", "--warmup", "0",
                  "--prompt", "Hello", "--prompt", "--b x"});
  EXPECT_EQ(file["results"][0]["prompts"], (nlohmann::json{"Hello", "--b x"}));
}

TEST(Compare, AChildThatFailsIsOneRow) {
  const CommandResult result =
      compare({"--prompt", "Hello", "--prompt", "Please tell me what a key-value cache is good for",
               "--output-tokens", "1", "--b", "--context 12", "--repeat", "1", "--warmup", "0"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "tessera: 1 of 2 cases have no speed: 0 with different answers, 1 failed\n");
  EXPECT_THAT(result.out, HasSubstr("FAILED"));
  const nlohmann::json file = read_json_file(result_path());
  EXPECT_EQ(file["complete"], true);
  EXPECT_NE(file["results"][0]["speedup"], nullptr);
  const nlohmann::json& failed = file["results"][1];
  EXPECT_EQ(failed["status"], "failed");
  EXPECT_EQ(failed["speedup"], nullptr);
  EXPECT_EQ(failed["runs"].size(), 2u);
  EXPECT_THAT(failed["reason"].get<std::string>(),
              ::testing::MatchesRegex("B, round 0: exit code 1: the prompt has .* tokens, and a "
                                      "context of 12 leaves no room.*"));
}

TEST(Compare, AChildThatHangsIsOneRow) {
  const nlohmann::json file = results_of({"--external", "sleep 100", "--parse", "llama-bench",
                                          "--timeout", "1", "--output-tokens", "1"},
                                         1);
  EXPECT_EQ(file["results"][0]["status"], "failed");
  EXPECT_EQ(file["results"][0]["reason"], "A, warm-up: did not end within 1 s");
}

// Two formats give other tokens on a text that the model does not know.
const Arguments kTwoFormats = {"--a",
                               "--raw --dtype=bf16",
                               "--b",
                               "--raw --dtype=int4",
                               "--prompt",
                               "zebra 42",
                               "--output-tokens",
                               "30",
                               "--repeat",
                               "1",
                               "--warmup",
                               "0"};

TEST(Compare, DifferentAnswersHaveNoSpeed) {
  const CommandResult result = compare(kTwoFormats);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("DIFFERENT"));
  const nlohmann::json row = read_json_file(result_path())["results"][0];
  EXPECT_EQ(row["exactness"], "different");
  EXPECT_EQ(row["status"], "different");
  EXPECT_EQ(row["speedup"], nullptr);
  EXPECT_EQ(row["a"], nullptr);
  EXPECT_NE(row["difference"]["a"]["token"], row["difference"]["b"]["token"]);
}

TEST(Compare, ATolerancePassesLogitsThatAreClose) {
  Arguments arguments = kTwoFormats;
  arguments.insert(arguments.end(), {"--tolerance", "1000"});
  const nlohmann::json row = results_of(arguments)["results"][0];
  EXPECT_EQ(row["exactness"], "within_tolerance");
  EXPECT_EQ(row["logits"]["positions"], row["a"]["generated_tokens"]);
  EXPECT_NE(row["speedup"], nullptr);
  const double difference = row["logits"]["max_abs_difference"];
  EXPECT_GT(difference, 0);

  arguments.back() = std::to_string(difference * 0.99);
  const nlohmann::json refused = results_of(arguments, 1)["results"][0];
  EXPECT_EQ(refused["status"], "different");
  EXPECT_EQ(refused["logits"]["max_abs_difference"], difference);
  EXPECT_EQ(refused["speedup"], nullptr);
  EXPECT_THAT(refused["reason"].get<std::string>(), HasSubstr("more than the tolerance of "));
}

constexpr const char* kCatLlamaBench = "cat " TESSERA_TEST_DATA "/compare/llama_bench.json";

// Prints the numbers of tokens that it is told.
constexpr const char* kEcho =
    R"(sh -c 'printf "[{\"n_prompt\": {prompt_tokens}, \"n_gen\": 0, \"avg_ts\": 2},)"
    R"({\"n_prompt\": 0, \"n_gen\": {generated_tokens}, \"avg_ts\": 3}]"')";

TEST(CompareExternal, IsMeasuredInTurnAndNotChecked) {
  const CommandResult result = compare({"--external", kCatLlamaBench, "--parse", "llama-bench",
                                        "--output-tokens", "3", "--repeat", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("not checked"));
  const nlohmann::json row = read_json_file(result_path())["results"][0];
  EXPECT_EQ(row["exactness"], "not_checked");
  EXPECT_EQ(row["metric"], "decode_tokens_per_second");
  EXPECT_EQ(row["a"]["decode_tokens_per_second"]["median"], 9.42);
  EXPECT_EQ(row["a"]["prefill_tokens_per_second"]["median"], 61.8);
  EXPECT_EQ(row["speedup"]["samples"][0],
            row["b"]["decode_tokens_per_second"]["samples"][0].get<double>() / 9.42);
  EXPECT_EQ(row["runs"][1]["report"],
            read_json_file(TESSERA_TEST_DATA "/compare/llama_bench.json"));
  std::string sides;
  for (const nlohmann::json& run : row["runs"]) sides += run["side"];
  EXPECT_EQ(sides, "baabba");
}

TEST(CompareExternal, GetsOurNumbersOfTokens) {
  const nlohmann::json row =
      results_of({"--external", kEcho, "--parse", "llama-bench", "--output-tokens", "3", "--repeat",
                  "1", "--warmup", "0"})["results"][0];
  const nlohmann::json& report = row["runs"][1]["report"];
  EXPECT_EQ(report[0]["n_prompt"], row["b"]["input_tokens"]);
  EXPECT_EQ(report[1]["n_gen"], 3);
}

TEST(CompareExternal, WhatIsNotItsOutputIsAFailure) {
  const nlohmann::json row = results_of(
      {"--external", "echo '| model |'", "--parse", "llama-bench", "--output-tokens", "1"},
      1)["results"][0];
  EXPECT_THAT(row["reason"].get<std::string>(),
              HasSubstr("A, warm-up: the output of llama-bench: line 1, column 1: this is not"));
}

TEST(Compare, UsageErrorsExitWith2) {
  const auto expect = [](const Arguments& arguments, const std::string& sentence) {
    const CommandResult result = compare(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.err, "tessera: " + sentence + "\n");
    EXPECT_EQ(result.out, "");
  };
  expect({"--a", "'x"}, "--a has a quote that is not closed: \"'x\"");
  expect({"--b", "--output_length=3"},
         "--b holds --output-length, which the comparison sets itself, for both sides; leave it "
         "out");
  expect({"--external", "x", "--parse", "llama-bench", "--batch", "1,2"},
         "llama-bench runs one sequence; leave out --batch");
  expect({"--external", " ", "--parse", "llama-bench"},
         "--external is empty; give it the command of llama-bench");
  expect({"--tolerance=-1"}, "--tolerance must be from 0 up, not -1");
  expect({"--repeat", "0"}, "--repeat: must be a whole number from 1 to 10000, not 0 (see --help)");
  for (const Arguments& arguments :
       {Arguments{"--external", "x"},
        {"--parse", "llama-bench"},
        {"--external", "x", "--parse", "llama-bench", "--a", "x"},
        {"--external", "x", "--parse", "llama-bench", "--tolerance", "1"}}) {
    EXPECT_EQ(compare(arguments).exit_code, 2);
  }
}

}  // namespace
}  // namespace tessera
