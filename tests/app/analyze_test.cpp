// tessera analyze as a command.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/text_file.h"
#include "tests/app/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::own_folder;
using testing::run_tessera;
using ::testing::StartsWith;

const std::string kBatch = TESSERA_TEST_DATA "/analyze/batch.json";

TEST(Analyze, PrintsTables) {
  const CommandResult result = run_tessera({"analyze", kBatch});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith("Files\n=====\n"));
  EXPECT_THAT(result.out, HasSubstr("\nDecoding\n========\nMost: "));
  EXPECT_THAT(result.out, HasSubstr("By operator, batch 8:\n"));
}

TEST(Analyze, HasOtherForms) {
  const CommandResult markdown = run_tessera({"analyze", kBatch, "--format", "markdown"});
  EXPECT_EQ(markdown.exit_code, 0) << markdown.err;
  EXPECT_THAT(markdown.out, HasSubstr("\n## Decoding\n"));
  const CommandResult json = run_tessera({"analyze", "--format=json", kBatch});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_TRUE(nlohmann::json::parse(json.out).contains("sections"));
}

TEST(Analyze, WritesAPageBesideTheTables) {
  const std::string page = own_folder() + "/analyze-page.html";
  const CommandResult result = run_tessera({"analyze", kBatch, "--html", page});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("Files\n"));
  EXPECT_THAT(read_text_file(page), StartsWith("<!DOCTYPE html>\n"));
  std::filesystem::remove(page);
}

void expect_failure(const std::vector<std::string>& arguments, int exit_code,
                    const std::string& sentence) {
  const CommandResult result = run_tessera(arguments);
  EXPECT_EQ(result.exit_code, exit_code);
  EXPECT_EQ(result.err, "tessera: " + sentence + "\n");
  EXPECT_EQ(result.out, "");
}

TEST(Analyze, BadFiles) {
  const std::string path = own_folder() + "/bad.json";
  const auto write = [&](const std::string& text) { write_text_file(path, text); };
  write("{\"command\": \"bench decode\", \"version\": \"1\"}");
  expect_failure({"analyze", path}, 1, path + ": \"machine\" is missing, but it is needed");
  // A good file beside it does not hide it, and nothing is printed.
  expect_failure({"analyze", kBatch, path}, 1, path + ": \"machine\" is missing, but it is needed");
  write("{}");
  expect_failure({"analyze", path}, 1,
                 path + ": \"command\" is missing, so this is no result file of tessera bench");
  write("not json");
  const CommandResult result = run_tessera({"analyze", path});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("tessera: " + path + ": "));
  std::filesystem::remove(path);
  expect_failure({"analyze", path}, 1, path + ": no such file; check the path");
}

TEST(Analyze, BadRequests) {
  EXPECT_EQ(run_tessera({"analyze"}).exit_code, 2);
  EXPECT_EQ(run_tessera({"analyze", kBatch, "--format", "pdf"}).exit_code, 2);
  EXPECT_EQ(run_tessera({"analyze", kBatch, "--html", "/nowhere/page.html"}).exit_code, 1);
  EXPECT_EQ(run_tessera({"analyze", "--help"}).exit_code, 0);
}

}  // namespace
}  // namespace tessera
