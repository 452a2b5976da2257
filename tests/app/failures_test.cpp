// What the command does where its surroundings fail it, and what it says about values it refuses.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/text_file.h"
#include "tests/app/command.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::run_tessera;
using ::testing::StartsWith;

using Arguments = std::vector<std::string>;

void expect_failure(const Arguments& arguments, int exit_code, const std::string& sentence) {
  const CommandResult result = run_tessera(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.err, "tessera: " + sentence + "\n");
  EXPECT_EQ(result.out, "");
}

void expect_usage(const Arguments& arguments, const std::string& sentence) {
  expect_failure(arguments, 2, sentence + " (see --help)");
}

const Arguments kShort = {"ask", "--greedy", "--output-length", "2"};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// The bundled model in a folder where it can be damaged.
class DamagedModel : public ::testing::Test {
 protected:
  DamagedModel() {
    for (const auto& entry : fs::directory_iterator(TESSERA_DEMO_MODEL)) {
      fs::copy(entry.path(), folder_ / entry.path().filename().string());
    }
  }

  template <typename Change>
  void change(const std::string& file, Change change) {
    nlohmann::json json = read_json_file(folder_ / file);
    change(json);
    folder_.write(file, json.dump());
  }

  void expect_refused(int exit_code, const std::string& sentence) {
    expect_failure(with(kShort, {"--model-path", folder_.name()}), exit_code, sentence);
  }

  TemporaryFolder folder_;
};

TEST(Output, AFullDiskFailsTheRun) {
  const std::string sentence =
      "tessera: standard output cannot be written (No space left on device)\n";
  for (const Arguments& arguments :
       {kShort, {"tokenize", "--text", "x"}, {"verify", "--list"}, {"--version"}, {"--help"}}) {
    const CommandResult result = run_tessera(arguments, {}, {.out = "/dev/full"});
    EXPECT_EQ(result.exit_code, 1) << arguments[0];
    EXPECT_EQ(result.err, sentence) << arguments[0];
  }
}

TEST(Output, AFullStandardErrorChangesNothing) {
  const CommandResult result = run_tessera(kShort, {}, {.err = "/dev/full"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out, "");
  EXPECT_EQ(run_tessera({"ask", "--model-path", "/no/model"}, {}, {.err = "/dev/full"}).exit_code,
            1);
}

TEST(Output, ClosedStreamsTakeNothingFromTheReport) {
  const TemporaryFolder folder;
  const std::string report = folder.name() + "/report.json";
  const CommandResult result =
      run_tessera(with(kShort, {"--report-file", report}), {}, {.close_err = true});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(read_json_file(report)["token_ids"].size(), 2u);
}

TEST(Output, AReportMayGoToADevice) {
  EXPECT_EQ(run_tessera(with(kShort, {"--report-file", "/dev/null"})).exit_code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const CommandResult result = run_tessera(with(kShort, {"--report-file", "/dev/stdout"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\n{\n  \"model\": "));
}

TEST(Arguments, ValuesStayAsTheyAre) {
  const TemporaryFolder folder;
  const std::string report = folder.name() + "/report.json";
  for (const std::string prompt : {"--output_length", "--a_b", "--"}) {
    const CommandResult result =
        run_tessera({"ask", "--greedy", "--prompt", prompt, "--output_length=1", "--prompt", "x",
                     "--report_file", report});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith("[1] " + prompt + "\n"));
  }
  expect_usage({"ask", "--no_such_flag"},
               "The following argument was not expected: --no_such_flag");
}

TEST(Arguments, AnUnknownCommandIsNamed) {
  expect_failure({"aks", "--prompt", "x"}, 2,
                 "there is no command \"aks\"; choose one of analyze, ask, bench, graph, kernels, "
                 "logits, pack, synth, tokenize, verify");
}

TEST(Arguments, RefuseWhatIsNoNumber) {
  expect_usage({"ask", "--temperature", ""},
               "--temperature: must be a decimal number such as 0.7, not empty");
  expect_usage({"ask", "--top_p", "0x1"}, "--top-p: must be a decimal number such as 0.7, not 0x1");
  expect_usage({"ask", "--top_k", ""}, "--top-k: must be a whole number from 0 up, not empty");
  expect_usage({"ask", "--top-k=-1"}, "--top-k: must be a whole number from 0 up, not -1");
  expect_usage({"ask", "--seed", ""}, "--seed: must be a whole number from 0 up, not empty");
  expect_usage({"ask", "--seed=", "--greedy"},
               "--seed: must be a whole number from 0 up, not empty");
  expect_usage({"ask", "--output_length", "010"},
               "--output-length: must be a whole number from 1 up, not 010");
  expect_usage({"ask", "--output_length", "0x10"},
               "--output-length: must be a whole number from 1 up, not 0x10");
  for (const char* command : {"ask", "verify"}) {
    expect_usage({command, "--threads", "99999999999"},
                 "--threads: must be a whole number from 1 to 1024, not 99999999999");
  }
  expect_usage({"synth", "d", "--like", "deepseek-v2-lite", "--threads", ""},
               "--threads: must be a whole number from 1 to 1024, not empty");
  expect_usage({"synth", "d", "--like", "deepseek-v2-lite", "--layers", ""},
               "--layers: must be a whole number from 0 up, not empty");
  for (const char* ids : {"1,,2", "", "1,", "01", "x"}) {
    const std::string shown = *ids == '\0' ? "empty" : ids;
    expect_usage({"logits", "--output", "/tmp/x", "--ids", ids},
                 "--ids: must be token ids such as 1,2,3, not " + shown);
    expect_usage({"tokenize", "--decode", ids},
                 "--decode: must be token ids such as 1,2,3, not " + shown);
  }
}

TEST(Arguments, RefuseEmptyNames) {
  const std::string file = ": must not be empty; give the name of a file";
  expect_usage({"ask", "--report-file", ""}, "--report-file" + file);
  expect_usage({"ask", "--sentence-file="}, "--sentence-file" + file);
  expect_usage({"logits", "--ids", "1", "--output", ""}, "--output" + file);
  expect_usage({"tokenize", "--file", ""}, "--file" + file);
  expect_usage({"tokenize", "--chat", ""}, "--chat" + file);
  for (const char* command : {"ask", "tokenize"}) {
    expect_usage({command, "--model-path", ""},
                 "--model-path: must not be empty; give the name of a folder");
  }
}

TEST(Arguments, StayOneLineInErrors) {
  expect_failure({"ask", "--model-path", "/no\n\x1b[31m"}, 1,
                 "/no\\n\\x1b[31m/config.json: no such file; check the path");
}

TEST(Arguments, RawLeavesNoPlaceForASystemMessage) {
  expect_failure({"ask", "--raw", "--system", "x"}, 2,
                 "--system needs the chat template, which --raw turns off; leave one of them out");
}

TEST(Arguments, StopStringsAreUtf8) {
  expect_failure(with(kShort, {"--stop", "a", "--stop", "\xff"}), 2,
                 "stop string 2 of 2 is not valid UTF-8; give whole characters");
}

TEST(Arguments, ErrorsInABatchSayWhichPrompt) {
  expect_failure(with(kShort, {"--prompt", "a", "--prompt", ""}), 2,
                 "prompt 2: the prompt is empty; give --prompt some text");
  const CommandResult result = run_tessera(
      with(kShort, {"--raw", "--context", "5", "--prompt", "a", "--prompt", "a b c d e f g h i"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("tessera: prompt 2: the prompt has "));
}

TEST(Logits, TheOutputIsLookedAtFirst) {
  expect_failure({"logits", "--ids", "1", "--output", "/no/x", "--model-path", "/no/model"}, 1,
                 "/no/x: cannot be written (No such file or directory); check the folder and the "
                 "free space");
  expect_failure({"logits", "--ids", "1", "--output", "/tmp", "--model-path", "/no/model"}, 1,
                 "/tmp: is a folder; name a file in it");
}

TEST(TokenizeChat, SaysWhichMessageIsWrong) {
  const TemporaryFolder folder;
  const std::string file = folder.name() + "/chat.json";
  const auto expect = [&](const std::string& json, const std::string& sentence) {
    folder.write("chat.json", json);
    expect_failure({"tokenize", "--chat", file}, 1, file + ": " + sentence);
  };
  const std::string no_list = "must be a list of at least one message {role, content}";
  expect("[]", no_list);
  expect("{}", no_list);
  const std::string bad =
      " must be an object with a string \"role\" and a string or null \"content\"";
  expect("[3]", "message 1" + bad);
  expect(R"([{"role": "user", "content": "x"}, {"role": "user"}])", "message 2" + bad);
  expect(R"([{"role": 1, "content": "x"}])", "message 1" + bad);
  expect(R"([{"role": "user", "content": []}])", "message 1" + bad);
}

TEST_F(DamagedModel, ATokenizerThatDoesNotFit) {
  change("config.json", [](auto& json) { json["vocab_size"] = 2552; });
  change("tokenizer.json", [](auto& json) {
    auto token = json["added_tokens"][0];
    token["id"] = 2552;
    token["content"] = "<too much>";
    json["added_tokens"].push_back(token);
  });
  expect_refused(1, folder_.name() +
                        "/tokenizer.json: token id 2552 is beyond the vocab_size 2552 of "
                        "config.json; check that both come from the same model");
}

TEST_F(DamagedModel, SpecialTokensBeyondTheVocabulary) {
  change("generation_config.json", [](auto& json) { json["eos_token_id"] = {1, 2560}; });
  expect_refused(1, folder_.name() +
                        "/generation_config.json: eos_token_id 2560 is beyond the vocab_size 2560 "
                        "of config.json; check that both come from the same model");
}

TEST_F(DamagedModel, AConfigOfManyMoreTensors) {
  change("config.json", [](auto& json) {
    json["num_hidden_layers"] = 4000;
    json["n_routed_experts"] = 16000;
  });
  const CommandResult result = run_tessera(with(kShort, {"--model-path", folder_.name()}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr(" tensors, but config.json asks for 191996002; check that both come"));
}

TEST_F(DamagedModel, ATemplateThatRefuses) {
  folder_.write("chat_template.jinja", "{{ raise_exception('no\nno') }}");
  expect_refused(1, "the chat template refuses the conversation: no\\nno");
  folder_.write("chat_template.jinja", "");
  change("tokenizer_config.json", [](auto& json) { json["chat_template"] = ""; });
  expect_refused(1, "this model has no chat template; use --raw to complete the prompt as it is");
}

}  // namespace
}  // namespace tessera
