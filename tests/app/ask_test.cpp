#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "tests/app/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::own_folder;
using testing::run_tessera;
using ::testing::StartsWith;

// Runs `tessera ask` with a report and returns it.
nlohmann::json report_of(std::vector<std::string> arguments) {
  const std::string path = own_folder() + "/ask-report.json";
  arguments.insert(arguments.begin(), "ask");
  arguments.push_back("--report-file=" + path);
  const CommandResult result = run_tessera(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  nlohmann::json report = read_json_file(path);
  std::filesystem::remove(path);
  return report;
}

void expect_failure(const std::vector<std::string>& arguments, int exit_code,
                    const std::string& sentence) {
  const CommandResult result = run_tessera(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.err, "tessera: " + sentence + "\n");
  EXPECT_EQ(result.out, "");
}

nlohmann::json expected_answers() {
  return read_json_file(TESSERA_TEST_DATA "/demo/greedy.json");
}

TEST(Ask, AnswersTheDefaultPrompt) {
  const CommandResult result = run_tessera({"ask", "--greedy"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, expected_answers()[0].at("text").get<std::string>() + "\n");
  EXPECT_THAT(result.err, HasSubstr("tokens/s"));
}

TEST(Ask, ReportsEveryKey) {
  const nlohmann::json report = report_of({"--greedy", "--threads", "1", "--dtype", "fp32"});
  for (const char* key : {"model",
                          "mode",
                          "kernels",
                          "warmup_s",
                          "tokenizer_load_s",
                          "model_load_s",
                          "model_load_peak_mem_mb",
                          "kv_cache_tokens",
                          "kv_cache_mb",
                          "tokenize_s",
                          "input_tokens",
                          "generate_s",
                          "generated_tokens",
                          "tokens_per_second",
                          "generate_peak_mem_mb",
                          "time_to_first_token_s",
                          "prefill_tokens_per_second",
                          "decode_tokens_per_second",
                          "dtype",
                          "threads",
                          "seed",
                          "finish_reason",
                          "text",
                          "token_ids"}) {
    EXPECT_TRUE(report.contains(key)) << key;
  }
  const nlohmann::json expected = expected_answers()[0];
  EXPECT_EQ(report["mode"], "auto");
  EXPECT_EQ(report["dtype"], "fp32");
  EXPECT_EQ(report["threads"], 1);
  EXPECT_EQ(report["finish_reason"], "stop");
  EXPECT_EQ(report["text"], expected["text"]);
  EXPECT_EQ(report["token_ids"], expected["token_ids"]);
  EXPECT_EQ(report["input_tokens"], expected["prompt_ids"].size());
  EXPECT_EQ(report["generated_tokens"], expected["token_ids"].size());
  EXPECT_GT(report["generate_s"], 0);
  EXPECT_GT(report["decode_tokens_per_second"], 0);
  EXPECT_GT(report["model_load_peak_mem_mb"], 1);
}

// What a run with these flags reports: its mode and its kernels.
void expect_kernels(const std::vector<std::string>& flags, const std::string& mode,
                    const nlohmann::json& kernels) {
  std::vector<std::string> arguments = {"--greedy", "--dtype", "fp32"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const nlohmann::json report = report_of(arguments);
  EXPECT_EQ(report["mode"], mode);
  EXPECT_EQ(report["kernels"], kernels) << mode;
  EXPECT_EQ(report["token_ids"], expected_answers()[0]["token_ids"]) << mode;
}

nlohmann::json kernels(const std::string& rms_norm, const std::string& rope,
                       const std::string& mla_prolog, const std::string& kv_cache) {
  return {
      {"rms_norm", rms_norm}, {"rope", rope}, {"mla_prolog", mla_prolog}, {"kv_cache", kv_cache}};
}

TEST(Ask, SaysWhatAContextTakesBeforeItIsTaken) {
  const CommandResult result = run_tessera({"ask", "--greedy", "--context", "1000"});
  EXPECT_THAT(result.err, StartsWith("KV cache: 1024 tokens, "));
  EXPECT_THAT(run_tessera({"ask", "--greedy"}).err, Not(HasSubstr("KV cache: ")));
}

TEST(Ask, RunsTheKernelsThatAreAskedFor) {
  expect_kernels({"--baseline"}, "baseline", kernels("native", "native", "native", "latent"));
  expect_kernels({"--baseline", "--kv_cache", "expanded"}, "baseline",
                 kernels("native", "native", "native", "expanded"));
  expect_kernels({}, "auto", kernels("tile", "tile", "latent", "latent"));
  expect_kernels({"--use_pto"}, "pto", kernels("tile", "native", "native", "latent"));
  expect_kernels({"--use_rope"}, "rope", kernels("native", "tile", "native", "latent"));
  expect_kernels({"--use_rope", "--use_pto", "--kv_cache=expanded"}, "pto+rope",
                 kernels("tile", "tile", "native", "expanded"));
  expect_kernels({"--use_kv_fusion", "--use_pto", "--use_rope"}, "pto+rope+kv_fusion",
                 kernels("tile", "tile", "latent", "latent"));
  expect_kernels({"--use_kv_fusion"}, "kv_fusion", kernels("native", "native", "latent", "latent"));
  expect_kernels({"--use_kv_fusion", "--kv_cache=expanded"}, "kv_fusion",
                 kernels("native", "native", "fused", "expanded"));
  expect_kernels({"--use_kv_fusion", "--kv_fusion", "hybrid"}, "kv_fusion",
                 kernels("native", "native", "hybrid", "expanded"));
}

TEST(Ask, SaysWhichKernelsRan) {
  const CommandResult result = run_tessera({"ask", "--greedy", "--use_kv_fusion"});
  EXPECT_THAT(result.err, HasSubstr("mode            kv_fusion, bf16"));
  EXPECT_THAT(result.err, HasSubstr("kernels         rms_norm native, rope native, mla_prolog "
                                    "latent, kv_cache latent"));
  EXPECT_THAT(result.err, HasSubstr("warm-up "));
}

TEST(Ask, AWarmUpThatFailsIsAWarning) {
  const CommandResult result =
      run_tessera({"ask", "--greedy", "--baseline", "--warmup_seq_lens=1,500"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, expected_answers()[0].at("text").get<std::string>() + "\n");
  EXPECT_THAT(result.err,
              StartsWith("tessera: warning: the warm-up with 500 tokens a sequence failed (the KV "
                         "cache is full"));
}

TEST(Ask, WithoutACompilerSaysSo) {
  const CommandResult result = run_tessera(
      {"ask", "--greedy", "--use_kv_fusion"},
      {"TESSERA_COMPILER=/no/such/plugin", "TESSERA_CACHE_DIR=" + own_folder() + "/none"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              HasSubstr("\ntessera: the compiler plugin cannot be opened: /no/such/plugin"));
}

TEST(Ask, SeveralPromptsAreOneBatch) {
  const nlohmann::json expected = expected_answers();
  const nlohmann::json report =
      report_of({"--greedy", "--prompt", expected[0]["prompt"], "--prompt", expected[1]["prompt"]});
  EXPECT_EQ(report["text"], nlohmann::json::array({expected[0]["text"], expected[1]["text"]}));
  EXPECT_EQ(report["finish_reason"].size(), 2u);
}

TEST(Ask, UnderscoresAndDashesAreTheSame) {
  const nlohmann::json a = report_of({"--output_length", "3", "--greedy"});
  const nlohmann::json b = report_of({"--output-length=3", "--greedy"});
  EXPECT_EQ(a["token_ids"], b["token_ids"]);
  EXPECT_EQ(a["token_ids"].size(), 3u);
  EXPECT_EQ(a["finish_reason"], "length");
}

TEST(Ask, AnUnderscoreInAValueStays) {
  const CommandResult result = run_tessera({"ask", "--model_path=/no_such_folder"});
  EXPECT_THAT(result.err, HasSubstr("/no_such_folder"));
}

TEST(Ask, SentenceFileJoinsItsNonEmptyLines) {
  const std::string path = own_folder() + "/sentences.txt";
  std::ofstream(path) << "\n你好\r\n\n   \n";
  EXPECT_EQ(report_of({"--greedy", "--sentence_file", path})["text"],
            expected_answers()[0]["text"]);
  // --prompt wins.
  EXPECT_EQ(report_of({"--greedy", "--sentence_file", path, "--prompt",
                       expected_answers()[1]["prompt"]})["text"],
            expected_answers()[1]["text"]);
  std::ofstream(path) << "\n  \n";
  expect_failure({"ask", "--sentence-file", path}, 2,
                 path + ": has no text; give a file with at least one sentence");
  std::filesystem::remove(path);
}

TEST(Ask, TheSameSeedGivesTheSameAnswer) {
  const std::vector<std::string> hot = {"--temperature=3", "--output_length=20", "--seed=5"};
  EXPECT_EQ(report_of(hot)["token_ids"], report_of(hot)["token_ids"]);
  EXPECT_EQ(report_of(hot)["seed"], 5);
}

TEST(Ask, ModelPathComesFromTheEnvironment) {
  const CommandResult result = run_tessera({"ask"}, {"MODEL_PATH=/no/such/model"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("tessera: /no/such/model"));
}

TEST(Ask, ControlTokensInAPromptStayText) {
  const std::string prompt = "<｜end▁of▁sentence｜>";
  const auto plain = report_of({"--greedy", "--output_length=1", "--prompt", prompt});
  const auto parsed =
      report_of({"--greedy", "--output_length=1", "--prompt", prompt, "--parse_special"});
  EXPECT_GT(plain["input_tokens"], parsed["input_tokens"]);
}

TEST(Ask, UsageErrorsExitWith2) {
  expect_failure({"ask", "--prompt", ""}, 2, "the prompt is empty; give --prompt some text");
  expect_failure({"ask", "--device", "7"}, 2,
                 "--device 7 names an accelerator, and this build has none; its devices are: cpu");
  expect_failure(
      {"ask", "--device", "npu:0"}, 2,
      "--device npu:0 names an accelerator, and this build has none; its devices are: cpu");
  expect_failure({"ask", "--device", "tpu"}, 2,
                 "--device tpu is unknown; the devices of this build are: cpu");
  expect_failure({"ask", "--temperature", "nan"}, 2,
                 "temperature must be a number from 0 up, not nan");
  expect_failure({"ask", "--temperature", "inf"}, 2,
                 "temperature must be a number from 0 up, not inf");
  expect_failure({"ask", "--temperature=-1"}, 2, "temperature must be a number from 0 up, not -1");
  expect_failure({"ask", "--top_p", "0"}, 2, "top_p must be above 0 and at most 1, not 0");
  expect_failure({"ask", "--top_p", "nan"}, 2, "top_p must be above 0 and at most 1, not nan");
  expect_failure({"ask", "--min_p", "2"}, 2, "min_p must be from 0 to 1, not 2");
  expect_failure({"ask", "--repetition_penalty", "0"}, 2,
                 "repetition_penalty must be a number above 0, not 0");
  expect_failure({"ask", "--use_graph", "--graph_buckets", "4,2"}, 2,
                 "graph buckets must be numbers of tokens that rise from 1");
  expect_failure({"ask", "--baseline", "--use_rope"}, 2,
                 "--baseline runs native operators only; leave out either it or the --use flags");
  expect_failure({"ask", "--kv_fusion", "hybrid"}, 2,
                 "--kv-fusion says which prolog --use-kv-fusion takes; give that flag too");
  expect_failure(
      {"ask", "--use_kv_fusion", "--kv_fusion", "fused", "--kv_cache", "latent"}, 2,
      "the fused prolog writes the expanded form of the KV cache and no other; leave out "
      "--kv-cache or choose another with --kv-fusion");
  expect_failure({"ask", "--kv_cache", "expanded", "--attention_form", "absorbed"}, 2,
                 "attention in absorbed form needs a latent KV cache, and this one is expanded; "
                 "leave out --attention-form or choose --kv-cache latent");
  expect_failure({"ask", "--warmup_seq_lens", "1,0"}, 2,
                 "--warmup-seq-lens: must be numbers of tokens from 1 up such as 1,2,8, not 1,0 "
                 "(see --help)");
  expect_failure({"ask", "--warmup_seq_lens", "4096"}, 2,
                 "warmup_seq_lens must be from 1 to 2048 (the positions of this model), not 4096");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ask", "--threads", "0"},
        {"ask", "--threads", "x"},
        {"ask", "--dtype", "int7"},
        {"ask", "--output_length", "0"},
        {"ask", "--no-such-flag"},
        {"no-such-command"}}) {
    const CommandResult result = run_tessera(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, StartsWith("tessera: "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(Ask, FailedRunsExitWith1) {
  expect_failure(
      {"ask", "--context", "3"}, 1,
      "the prompt has 9 tokens, and a context of 3 leaves no room for an answer; shorten it "
      "or raise --context");
  expect_failure(
      {"ask", "--report-file", "/no/such/folder/report.json", "--output_length=1"}, 1,
      "/no/such/folder/report.json: cannot be written (No such file or directory); check the "
      "folder and the free space");
}

TEST(Command, VersionAndHelp) {
  EXPECT_EQ(run_tessera({"--version"}).out, "tessera 0.1.0\n");
  for (const char* command : {"ask", "logits", "tokenize"}) {
    const CommandResult result = run_tessera({command, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("--model-path"));
  }
  EXPECT_EQ(run_tessera({}).exit_code, 0);
}

}  // namespace
}  // namespace tessera
