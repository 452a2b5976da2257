// The command with a prolog that adds an error to its output: it must be found out.
#include <algorithm>
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
using testing::run_program;

const std::vector<std::string> kWrong = {"--use-kv-fusion", "--kv-fusion", "wrong"};

std::vector<std::int32_t> answer(std::vector<std::string> flags) {
  const std::string report = own_folder() + "/wrong-report.json";
  flags.insert(flags.begin(), {TESSERA_WRONG, "ask", "--greedy", "--output-length", "20",
                               "--prompt", "你好", "--report-file", report});
  EXPECT_EQ(run_program(flags).exit_code, 0);
  return read_json_file(report)["token_ids"];
}

TEST(WrongKernel, IsRefusedWithTheFirstTokenThatDiffers) {
  const std::string path = own_folder() + "/wrong.json";
  const CommandResult result = run_program(
      {TESSERA_WRONG, "bench", "compare", "--b", "--use-kv-fusion --kv-fusion wrong --no-graph",
       "--output-tokens", "20", "--prompt", "你好", "--json", path});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "tessera: 1 of 1 cases have no speed: 1 with different answers, 0 failed\n");
  const nlohmann::json row = read_json_file(path)["results"][0];
  EXPECT_EQ(row["status"], "different");
  EXPECT_EQ(row["speedup"], nullptr);

  const auto right = answer({"--baseline"});
  const auto wrong = answer(kWrong);
  const auto [at, wrong_at] = std::ranges::mismatch(right, wrong);
  ASSERT_TRUE(at != right.end() && wrong_at != wrong.end());
  const nlohmann::json& difference = row["difference"];
  EXPECT_EQ(difference["position"], at - right.begin());
  EXPECT_EQ(difference["a"]["token"], *at);
  EXPECT_EQ(difference["b"]["token"], *wrong_at);
  const std::string sentence =
      fmt::format("A and B differ at position {}: token {} \"{}\" in A, token {} \"{}\" in B",
                  at - right.begin(), *at, difference["a"]["text"].get<std::string>(), *wrong_at,
                  difference["b"]["text"].get<std::string>());
  EXPECT_EQ(row["reason"], sentence);
  EXPECT_THAT(result.out, HasSubstr("DIFFERENT"));
  EXPECT_THAT(result.out, HasSubstr(sentence));
}

// It cannot be recorded either, as an operator of somebody else may not be.
TEST(WrongKernel, IsNamedWhereAGraphCannotBeCaptured) {
  std::vector<std::string> ask = {TESSERA_WRONG,     "ask", "--greedy",   "--prompt", "你好",
                                  "--output-length", "4",   "--use-graph"};
  ask.insert(ask.end(), kWrong.begin(), kWrong.end());
  const CommandResult result = run_program(ask);
  EXPECT_EQ(result.exit_code, 0);
  const std::string warning =
      "tessera: warning: the step could not be captured as a graph (mla_prolog wrong cannot be "
      "recorded); it runs eagerly\n";
  const std::size_t at = result.err.find(warning);
  ASSERT_NE(at, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(warning, at + 1), std::string::npos) << "told once";

  // Graph mode is the default.
  ask.erase(std::ranges::find(ask, "--use-graph"));
  EXPECT_THAT(run_program(ask).err, HasSubstr(warning));

  ask.push_back("--graph-strict");
  const CommandResult strict = run_program(ask);
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_THAT(strict.err, HasSubstr("tessera: mla_prolog wrong cannot be recorded\n"));
}

TEST(WrongKernel, TheRightOnesOfTheSameProgramAgree) {
  const CommandResult result =
      run_program({TESSERA_WRONG, "bench", "compare", "--output-tokens", "4", "--repeat", "1",
                   "--warmup", "0", "--json", own_folder() + "/right.json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

}  // namespace
}  // namespace tessera
