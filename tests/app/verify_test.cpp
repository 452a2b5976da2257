#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/app/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::run_tessera;
using ::testing::StartsWith;

void expect_failure(const std::vector<std::string>& arguments, int exit_code,
                    const std::string& sentence) {
  const CommandResult result = run_tessera(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.err, "tessera: " + sentence + "\n");
}

TEST(Verify, RunsOneCaseForEveryImplementation) {
  const CommandResult result = run_tessera({"verify", "mla_prolog_001"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("PASS mla_prolog_001 baseline\n"));
  EXPECT_THAT(result.out, HasSubstr("  k_nope [1, 16, 1, 128] fp16: max abs "));
  EXPECT_THAT(result.out, HasSubstr("PASS mla_prolog_001 reference\n"));
  EXPECT_THAT(result.out,
              HasSubstr("SKIP mla_prolog_001 latent: writes only rows of a latent cache\n"));
  EXPECT_THAT(result.out, HasSubstr(" 0 failed, 1 skipped\n"));
}

TEST(Verify, Lists) {
  const CommandResult result = run_tessera({"verify", "--list", "--op", "mla_prolog"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              StartsWith("mla_prolog_001  mla_prolog  minimal prefill, one token, fp16\n"));
  EXPECT_GE(std::ranges::count(result.out, '\n'), 60);
}

TEST(Verify, ReportsInJson) {
  const CommandResult result =
      run_tessera({"verify", "rope_001", "--impl", "native", "--json", "--threads", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report.at("run"), 1);
  EXPECT_EQ(report.at("failed"), 0);
  const auto& only = report.at("results").at(0);
  EXPECT_EQ(only.at("id"), "rope_001");
  EXPECT_EQ(only.at("implementation"), "native");
  EXPECT_EQ(only.at("result"), "pass");
  for (const char* key : {"name", "shape", "dtype", "pass", "max_abs", "max_rel", "cosine", "ulp",
                          "nan", "inf", "outside", "worst", "fault"}) {
    EXPECT_TRUE(only.at("outputs").at(0).contains(key)) << key;
  }
}

// bf16 cannot be as exact as this case asks for.
TEST(Verify, AFailureExitsWithOne) {
  const std::string path = ::testing::TempDir() + "/failing-cases.json";
  std::ofstream(path) << R"({"op": "rms_norm", "test_cases": [{"id": "x", "seed": 1,
      "input": {"x": {"shape": [3, 8], "dtype": "float32"},
                "weight": {"shape": [8], "dtype": "float32"}, "eps": {"value": 0}},
      "output": {"y": {"shape": [3, 8], "dtype": "bfloat16"}}, "rtol": 1e-6, "atol": 0}]})";
  const CommandResult result = run_tessera({"verify", "--cases", path});
  std::filesystem::remove(path);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("FAIL x native\n"));
  EXPECT_THAT(result.out, HasSubstr("elements are outside the tolerance\n"));
  EXPECT_EQ(result.err, "tessera: 3 of 3 checks failed\n");
}

TEST(Verify, BadRequests) {
  expect_failure({"verify", "rope_999"}, 2, "there is no case \"rope_999\"; see --list");
  expect_failure({"verify", "--op", "softmax"}, 2,
                 "there is no operator \"softmax\"; choose one of rms_norm, rope, mla_prolog");
  expect_failure({"verify", "rope_001", "--op", "rms_norm"}, 2,
                 "no case is left to run; see --list");
  expect_failure({"verify", "--op", "rope", "--impl", "fast"}, 2,
                 "no operator of these cases has an implementation \"fast\"; choose one of tile, "
                 "native, reference");
  EXPECT_EQ(run_tessera({"verify", "--cases", "/nowhere/cases.json"}).exit_code, 1);
}

TEST(Verify, CompilesTileKernelsForAnotherCpu) {
  const CommandResult haswell =
      run_tessera({"verify", "mla_prolog_001", "--impl", "fused", "--target-cpu", "haswell"});
  EXPECT_EQ(haswell.exit_code, 0) << haswell.out << haswell.err;
  const CommandResult unknown =
      run_tessera({"verify", "mla_prolog_001", "--impl", "fused", "--target-cpu", "no-such-cpu"});
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_THAT(unknown.out + unknown.err, HasSubstr("no-such-cpu"));
}

}  // namespace
}  // namespace tessera
