// A comparison that is killed leaves what it had, and another goes on from there.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

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
  return own_folder() + "/resumed.json";
}

// Three short cases; a run of each side.
Arguments command(const Arguments& more) {
  Arguments arguments = {"bench",    "compare", "--json",          result_path(),
                         "--batch",  "1,2,3",   "--output-tokens", "2",
                         "--repeat", "1",       "--warmup",        "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json file() {
  return read_json_file(result_path());
}

// Starts it, waits for its first result and kills it.
void kill_after_the_first_case() {
  std::filesystem::remove(result_path());
  Arguments words = command({"--cooldown", "1"});
  words.insert(words.begin(), TESSERA_COMMAND);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    ::freopen("/dev/null", "w", stdout);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(result_path()) || file()["results"].empty()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(process, SIGKILL);
  int status = 0;
  ::waitpid(process, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(CompareResume, FinishesWhatWasKilled) {
  kill_after_the_first_case();
  const nlohmann::json before = file();
  EXPECT_EQ(before["complete"], false);
  ASSERT_EQ(before["results"].size(), 1u);
  EXPECT_EQ(before["cases"].size(), 3u);

  const CommandResult result = run_tessera(command({"--resume"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json after = file();
  EXPECT_EQ(after["complete"], true);
  ASSERT_EQ(after["results"].size(), 3u);
  EXPECT_EQ(after["results"][0], before["results"][0]);  // not measured again
  EXPECT_EQ(after["started"], before["started"]);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(after["results"][i]["case"], i);
  EXPECT_THAT(result.out, HasSubstr("\n    1      2 "));  // a row of the table all the same
  EXPECT_THAT(result.out, HasSubstr("\n    3      2 "));

  EXPECT_EQ(run_tessera(command({"--resume"})).exit_code, 0);  // nothing is left
  EXPECT_EQ(file()["results"], after["results"]);
}

TEST(CompareResume, MeasuresAnewWhatFailed) {
  // 3 prompts, of which the second does not fit.
  const Arguments base = {"bench",
                          "compare",
                          "--json",
                          result_path(),
                          "--output-tokens",
                          "1",
                          "--prompt",
                          "Hello",
                          "--prompt",
                          "Please tell me what a key-value cache is good for",
                          "--prompt",
                          "Hi",
                          "--repeat",
                          "1",
                          "--warmup",
                          "0",
                          "--b",
                          "--context 12"};
  EXPECT_EQ(run_tessera(base).exit_code, 1);
  const nlohmann::json before = file();
  Arguments again = base;
  again.emplace_back("--resume");
  EXPECT_EQ(run_tessera(again).exit_code, 1);
  const nlohmann::json after = file();
  EXPECT_EQ(after["results"][0], before["results"][0]);
  EXPECT_EQ(after["results"][2], before["results"][2]);
  EXPECT_EQ(after["results"][1]["status"], "failed");
  EXPECT_NE(after["results"][1]["runs"][0]["wall_s"], before["results"][1]["runs"][0]["wall_s"]);
}

TEST(CompareResume, WithoutAFileBeginsOne) {
  std::filesystem::remove(result_path());
  EXPECT_EQ(run_tessera(command({"--resume"})).exit_code, 0);
  EXPECT_EQ(file()["results"].size(), 3u);
}

void expect_refused(const Arguments& more, int exit_code, const std::string& sentence) {
  const CommandResult result = run_tessera(command(more));
  EXPECT_EQ(result.exit_code, exit_code);
  EXPECT_EQ(result.err, "tessera: " + result_path() + sentence + "\n");
  EXPECT_EQ(result.out, "");
}

TEST(CompareResume, RefusesAnotherComparison) {
  EXPECT_EQ(run_tessera(command({})).exit_code, 0);
  const nlohmann::json before = file();
  const std::string end = "; give the same options, or leave out --resume to begin anew";
  const auto expect = [&](Arguments more, const std::string& what) {
    more.emplace_back("--resume");
    expect_refused(more, 2, " is of another comparison: its " + what + end);
    EXPECT_EQ(file(), before);
  };
  expect({"--a", "--use-rope"}, "a/flags/0 is \"--baseline\", and now it is \"--use-rope\"");
  expect({"--prompt", "Hi"}, "cases/0/prompts/0 is \"你好\", and now it is \"Hi\"");
  expect({"--model-path", "/no/model"},
         "model is " + before["model"].dump() + ", and now it is \"/no/model\"");
  expect({"--tolerance", "1"}, "settings/tolerance is null, and now it is 1.0");
  // Neither changes a number.
  EXPECT_EQ(run_tessera(command({"--timeout", "7", "--cooldown", "3", "--resume"})).exit_code, 0);
  EXPECT_EQ(file()["results"], before["results"]);
}

TEST(CompareResume, RefusesWhatIsNoFileOfResults) {
  const auto write = [](const std::string& text) { std::ofstream(result_path()) << text; };
  write("{\"command\": ");
  expect_refused({"--resume"}, 1,
                 ": line 1, column 13: the JSON text ends too early; download the file again");
  write("[]");
  expect_refused({"--resume"}, 1, ": is no file of results; leave out --resume to begin anew");
  EXPECT_EQ(run_tessera(command({})).exit_code, 0);
  nlohmann::json damaged = file();
  damaged["results"][0].erase("case");
  write(damaged.dump());
  expect_refused({"--resume"}, 1, ": is no file of results; leave out --resume to begin anew");
}

}  // namespace
}  // namespace tessera
