#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/safetensors.h"
#include "tests/app/command.h"
#include "tests/compare.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

using testing::own_folder;
using testing::run_tessera;

std::string comma_list(const std::vector<std::int32_t>& ids) {
  std::string list;
  for (std::int32_t id : ids) list.append(list.empty() ? "" : ",").append(std::to_string(id));
  return list;
}

std::vector<float> floats(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr) return {};
  std::vector<float> values(entry->n_bytes / sizeof(float));
  std::memcpy(values.data(), file.bytes(*entry).data(), entry->n_bytes);
  return values;
}

class LogitsCommand : public ::testing::TestWithParam<std::string> {};

TEST_P(LogitsCommand, WritesTheReferenceValues) {
  const testing::ReferenceValues expected(GetParam());
  const std::string path = own_folder() + "/logits-" + GetParam() + ".safetensors";
  const auto result = run_tessera(
      {"logits", "--model-path", testing::reference_folder(GetParam()).string(), "--dtype", "fp32",
       "--ids", comma_list(expected.ids("ids")), "--hidden", "--output", path});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto file = SafetensorsFile::open(path);
  EXPECT_TRUE(testing::close(floats(file, "logits"), expected.floats("fp32.logits"), 1e-4));
  EXPECT_TRUE(testing::close(floats(file, "hidden.0"), expected.floats("fp32.hidden.0"), 1e-4));
  EXPECT_TRUE(testing::close(floats(file, "hidden.1"), expected.floats("fp32.hidden.1"), 1e-4));
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(All, LogitsCommand, ::testing::ValuesIn(testing::reference_models()),
                         [](const auto& parameter) { return parameter.param; });

TEST(Logits, TakeTheKernelFlags) {
  const testing::ReferenceValues expected("lite");
  const std::string path = own_folder() + "/logits-kernels.safetensors";
  std::vector<std::vector<float>> all;
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--baseline"},
                                             {"--baseline", "--kv_cache", "expanded"},
                                             {"--use_kv_fusion"},
                                             {"--use_kv_fusion", "--kv_fusion", "fused"},
                                             {"--use_kv_fusion", "--kv_fusion", "hybrid"}}) {
    std::vector<std::string> arguments = {"logits",
                                          "--model-path",
                                          testing::reference_folder("lite").string(),
                                          "--dtype",
                                          "fp32",
                                          "--ids",
                                          comma_list(expected.ids("ids")),
                                          "--output",
                                          path};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const auto result = run_tessera(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    all.push_back(floats(SafetensorsFile::open(path), "logits"));
    EXPECT_TRUE(testing::close(all.back(), expected.floats("fp32.logits"), 1e-4));
    std::filesystem::remove(path);
  }
  // They did take another path: not one bit pattern for all.
  EXPECT_NE(all[0], all[1]);
  EXPECT_NE(all[0], all[2]);
  EXPECT_NE(all[1], all[3]);
}

TEST(Logits, SayWhatIsMissing) {
  const auto nothing = run_tessera({"logits", "--output", "/tmp/x"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_EQ(nothing.err,
            "tessera: nothing to run; give token ids with --ids or text with --text\n");
  const auto outside = run_tessera({"logits", "--ids", "1000000", "--output", "/tmp/x"});
  EXPECT_EQ(outside.exit_code, 2);
  EXPECT_THAT(outside.err, ::testing::HasSubstr("token id 1000000 is outside the vocabulary"));
}

TEST(Tokenize, GoesThereAndBack) {
  const std::string text = "Hello, 世界! ½ 🙂\n";
  const auto ids = run_tessera({"tokenize", "--text", text});
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  const auto list = nlohmann::json::parse(ids.out).get<std::vector<std::int32_t>>();
  const auto back = run_tessera({"tokenize", "--decode", comma_list(list)});
  EXPECT_EQ(back.out, text + "\n");
}

TEST(Tokenize, RendersAChat) {
  const std::string path = own_folder() + "/messages.json";
  std::ofstream(path) << R"([{"role": "user", "content": "你好"}])";
  const auto result = run_tessera({"tokenize", "--chat", path});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out),
            read_json_file(TESSERA_TEST_DATA "/demo/greedy.json")[0]["prompt_ids"]);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera
