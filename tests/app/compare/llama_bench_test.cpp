#include "app/compare/llama_bench.h"

#include <string>

#include <gtest/gtest.h>

#include "io/text_file.h"
#include "tests/io/expect_error.h"

namespace tessera::app {
namespace {

using Rates = std::map<std::string, double>;

TEST(LlamaBench, RatesAreMediansOfTheSamples) {
  const Rates rates =
      parse_llama_bench(read_text_file(TESSERA_TEST_DATA "/compare/llama_bench.json"));
  EXPECT_EQ(rates,
            (Rates{{"prefill_tokens_per_second", 61.8}, {"decode_tokens_per_second", 9.42}}));
}

TEST(LlamaBench, OldVersionsHaveTheAverageAlone) {
  EXPECT_EQ(parse_llama_bench(R"([{"n_prompt": 0, "n_gen": 8, "avg_ts": 5.5}])"),
            (Rates{{"decode_tokens_per_second", 5.5}}));
}

TEST(LlamaBench, PassesOverTestsOfBoth) {
  EXPECT_EQ(parse_llama_bench(R"([{"n_prompt": 8, "n_gen": 8, "avg_ts": 1},
                                  {"n_prompt": 8, "n_gen": 0, "avg_ts": 2}])"),
            (Rates{{"prefill_tokens_per_second", 2}}));
}

TEST(LlamaBench, RefusesWhatItIsNot) {
  const std::string name = "the output of llama-bench";
  const auto expect = [&](const std::string& output, const std::string& sentence) {
    EXPECT_ERROR(parse_llama_bench(output), ErrorCode::kBadJson, name + sentence);
  };
  expect("", ": line 1, column 1: the JSON text ends too early; download the file again");
  expect("| model | size |",
         ": line 1, column 1: this is not valid JSON; correct it or download the file again");
  expect("{}", ": must be a JSON array of tests");
  expect("[1]", ", test 1: must hold a JSON object, not a single value");
  expect(R"([{"n_gen": 8, "avg_ts": 1}])", ", test 1: \"n_prompt\" is missing, but it is needed");
  expect(R"([{"n_prompt": 0, "n_gen": "8", "avg_ts": 1}])",
         ", test 1: \"n_gen\" must be an integer from 0 to 1099511627776, not \"8\"");
  expect(R"([{"n_prompt": 0, "n_gen": 8}])", ", test 1: \"avg_ts\" is missing, but it is needed");
  expect(R"([{"n_prompt": 0, "n_gen": 8, "avg_ts": 0}])",
         ", test 1: \"avg_ts\" must be a number greater than 0, not 0");
  for (const char* samples : {"[]", "[1, 0]", "[\"x\"]", "7"}) {
    EXPECT_THROW(parse_llama_bench(R"([{"n_prompt": 0, "n_gen": 8, "avg_ts": 1, "samples_ts": )" +
                                   std::string(samples) + "}]"),
                 Error);
  }
  const std::string neither =
      ": has no test of a prompt alone or of generation alone; give -p or -n a number";
  expect("[]", neither);
  expect(R"([{"n_prompt": 8, "n_gen": 8, "avg_ts": 1}])", neither);
  expect(R"([{"n_prompt": 0, "n_gen": 8, "avg_ts": 1}, {"n_prompt": 0, "n_gen": 9, "avg_ts": 1}])",
         ": has several tests of generation alone; give -n one number");
}

}  // namespace
}  // namespace tessera::app
