// Case files: what is read, and the sentence about everything that cannot be.
#include "ops/verify/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ops/verify/fixture.h"

namespace tessera::ops::verify {
namespace {

using nlohmann::json;

json good_file() {
  return json::parse(R"({"test_cases": [{"id": "a", "seed": 3, "input": {
      "hidden_states": {"shape": [2, 3, 24], "dtype": "float16"},
      "kv_a_weight": {"shape": [24, 20], "dtype": "float16"},
      "kv_b_weight": {"shape": [16, 36], "dtype": "float16"},
      "ln_weight": {"shape": [16], "dtype": "float16"},
      "eps": {"value": 1e-6},
      "cos": {"shape": [8, 4], "dtype": "float16"}, "sin": {"shape": [8, 4], "dtype": "float16"},
      "pos_ids": {"shape": [2, 3], "dtype": "int64"}},
    "output": {"k_nope": {"shape": [2, 2, 3, 8], "dtype": "float16"},
      "value": {"shape": [2, 2, 3, 10], "dtype": "bfloat16"},
      "k_pe": {"shape": [2, 1, 3, 4], "dtype": "float32"}},
    "rtol": 0.01, "atol": 0.02}]})");
}

// Reads the file and makes the fixture of each case, as `tessera verify` does.
std::string sentence_about(const std::string& text) {
  try {
    for (const Case& c : parse_cases(text, "f.json")) make_fixture(c);
  } catch (const Error& error) {
    EXPECT_THAT(error.code(), ::testing::AnyOf(ErrorCode::kBadCases, ErrorCode::kBadJson));
    return error.what();
  }
  return "no error";
}

// The good file with one value replaced: pointer as in "/seed", below the case.
std::string with(const std::string& pointer, const json& value) {
  json file = good_file();
  file[json::json_pointer("/test_cases/0" + pointer)] = value;
  return sentence_about(file.dump());
}

std::string without(const std::string& object, const std::string& key) {
  json file = good_file();
  file[json::json_pointer("/test_cases/0" + object)].erase(key);
  return sentence_about(file.dump());
}

TEST(Cases, AreRead) {
  json file = good_file();
  json& only = file["test_cases"][0];
  only["description"] = "words";
  only["rope_layout"] = "half_split";
  only["input"]["hidden_states"]["scale"] = 4;
  only["input"]["pos_ids"]["values"] = {0, 1, 2, 5, 6, 7};
  only["output"]["k_pe"]["atol"] = 0.5;
  const Case c = parse_cases(file.dump(), "f.json").at(0);
  EXPECT_EQ(c.op, "mla_prolog");
  EXPECT_EQ(c.id, "a");
  EXPECT_EQ(c.description, "words");
  EXPECT_EQ(c.seed, 3);
  EXPECT_EQ(c.eps, 1e-6);
  EXPECT_EQ(c.layout, RopeLayout::kHalfSplit);
  EXPECT_EQ(c.input("hidden_states").scale, 4);
  EXPECT_EQ(c.input("kv_a_weight").scale, std::nullopt);
  EXPECT_EQ(c.positions->values, (std::vector<std::int64_t>{0, 1, 2, 5, 6, 7}));
  EXPECT_EQ(c.output("value").dtype, DType::kBF16);
  EXPECT_EQ(c.output("value").tolerance.rtol, 0.01);
  EXPECT_EQ(c.output("value").tolerance.atol, 0.02);
  EXPECT_EQ(c.output("k_pe").tolerance.atol, 0.5);
  EXPECT_EQ(c.output("k_pe").tolerance.rtol, 0.01);
}

TEST(Cases, DefaultToTheModelsLayout) {
  EXPECT_EQ(parse_cases(good_file().dump(), "f.json").at(0).layout, RopeLayout::kInterleaved);
}

TEST(Cases, TheGoodFileIsGood) {
  EXPECT_EQ(sentence_about(good_file().dump()), "no error");
}

TEST(BadCases, NotAFileOfCases) {
  EXPECT_EQ(sentence_about("[]"), "f.json: must hold a JSON object, not an array");
  EXPECT_EQ(sentence_about("{}"), "f.json: \"test_cases\" is missing, but it is needed");
  EXPECT_EQ(sentence_about(R"({"test_cases": {}})"),
            "f.json: \"test_cases\" must be an array of objects, not an object");
  EXPECT_EQ(sentence_about(R"({"test_cases": [3]})"),
            "f.json: \"test_cases\" must be an array of objects, but holds 3");
  EXPECT_EQ(sentence_about(R"({"test_cases": [], "op": "softmax"})"),
            "f.json: \"op\" must be one of rms_norm, rope, mla_prolog, not \"softmax\"");
  EXPECT_EQ(sentence_about(R"({"test_cases": [], "cases": 1})"),
            "f.json: the file has the key \"cases\", but it may have only op, test_cases");
  EXPECT_THAT(sentence_about("{"), ::testing::StartsWith("f.json: line 1, column 2: "));
}

TEST(BadCases, ValuesOfACase) {
  EXPECT_EQ(without("", "id"), "f.json: \"test_cases[0].id\" is missing, but it is needed");
  EXPECT_EQ(without("", "rtol"), "f.json: \"test_cases[0].rtol\" is missing, but it is needed");
  EXPECT_EQ(with("/seed", -1),
            "f.json: \"test_cases[0].seed\" must be an integer from 0 up, not -1");
  EXPECT_EQ(with("/atol", -0.5),
            "f.json: \"test_cases[0].atol\" must be a number from 0 up, not -0.5");
  EXPECT_EQ(
      with("/rope_layout", "neox"),
      "f.json: \"test_cases[0].rope_layout\" must be interleaved or half_split, not \"neox\"");
  EXPECT_EQ(
      with("/tolerance", 1),
      "f.json: case \"a\" has the key \"tolerance\", but it may have only id, description, seed, "
      "input, output, rtol, atol, rope_layout, rope_tables");
  EXPECT_EQ(with("/rope_tables", {{"theta", 0}}),
            "f.json: \"test_cases[0].rope_tables.theta\" must be a number greater than 0, not 0");
}

TEST(BadCases, Tensors) {
  EXPECT_EQ(with("/input/cos/dtype", "float8"),
            "f.json: \"test_cases[0].input.cos.dtype\" must be float32, bfloat16 or float16, not "
            "\"float8\"");
  EXPECT_EQ(
      with("/input/cos/shape", {8, 0}),
      "f.json: \"test_cases[0].input.cos.shape[1]\" must be an integer from 1 to 16777216, not "
      "0");
  EXPECT_EQ(with("/input/cos/shape", json::array()),
            "f.json: \"test_cases[0].input.cos.shape\" must be a list of dimensions, not an array");
  EXPECT_EQ(with("/input/cos/shape", {65536, 65536}),
            "f.json: a tensor of shape [65536, 65536] has more than 2^31 elements");
  EXPECT_EQ(with("/input/pos_ids/dtype", "int32"),
            "f.json: \"test_cases[0].input.pos_ids.dtype\" must be int64, not \"int32\"");
  EXPECT_EQ(with("/input/pos_ids/values", {1, 2}),
            "f.json: \"test_cases[0].input.pos_ids.values\" must be a list of 6 integers, not an "
            "array");
  EXPECT_EQ(with("/input/cos/sclae", 2),
            "f.json: \"cos\" has the key \"sclae\", but it may have only shape, dtype, scale");
}

TEST(BadCases, TheSameIdTwice) {
  json file = good_file();
  file["test_cases"].push_back(file["test_cases"][0]);
  EXPECT_EQ(sentence_about(file.dump()), "f.json: case \"a\": the id stands twice; rename one");
}

TEST(BadCases, TensorsThatAreMissingOrUnknown) {
  EXPECT_EQ(without("/input", "ln_weight"),
            "f.json: case \"a\": the input \"ln_weight\" is missing");
  EXPECT_EQ(without("/output", "value"), "f.json: case \"a\": the output \"value\" is missing");
  EXPECT_EQ(with("/input/kv_c_weight", {{"shape", {1}}, {"dtype", "float16"}}),
            "f.json: case \"a\": mla_prolog has no input \"kv_c_weight\"; it has hidden_states, "
            "kv_a_weight, kv_a_bias, kv_b_weight, ln_weight, cos, sin");
  EXPECT_EQ(with("/output", json::object()), "f.json: case \"a\": it has no output");
}

TEST(BadCases, ShapesThatDoNotFit) {
  EXPECT_EQ(with("/input/kv_b_weight/shape", {16, 32}),
            "f.json: case \"a\": kv_b_weight has the shape [16, 32], but the other tensors ask for "
            "[16, 36]");
  EXPECT_EQ(with("/input/hidden_states/shape", {3, 24}),
            "f.json: case \"a\": hidden_states has the shape [3, 24], but must be [batch, seq, "
            "hidden]");
  EXPECT_EQ(
      with("/input/kv_a_weight/shape", {24, 19}),
      "f.json: case \"a\": kv_a_weight has 19 outputs, which leaves 3 values to rotate beside a "
      "latent of 16; they must be pairs");
  EXPECT_EQ(
      with("/output/k_pe/shape", {2, 2, 3, 4}),
      "f.json: case \"a\": k_pe has the shape [2, 2, 3, 4], but the other tensors ask for [2, "
      "1, 3, 4]");
  // The original's order of tokens and heads.
  EXPECT_EQ(with("/output/value/shape", {2, 3, 2, 10}),
            "f.json: case \"a\": value has the shape [2, 3, 2, 10], but the other tensors ask for "
            "[2, 2, 3, 10]");
}

TEST(BadCases, Positions) {
  EXPECT_EQ(with("/input/pos_ids/values", {0, 1, 2, 3, 4, 8}),
            "f.json: case \"a\": pos_ids has the value 8, but cos has 8 rows");
  EXPECT_EQ(
      with("/input/pos_ids/shape", {1, 6}),
      "f.json: case \"a\": pos_ids has the shape [1, 6], but the other tensors ask for [2, 3]");
  EXPECT_EQ(with("/input/sin/shape", {9, 4}),
            "f.json: case \"a\": sin has the shape [9, 4], but the other tensors ask for [8, 4]");
  json file = good_file();
  for (const char* table : {"cos", "sin"}) {
    file["test_cases"][0]["input"][table]["shape"] = {2, 4};
  }
  EXPECT_EQ(sentence_about(file.dump()),
            "f.json: case \"a\": cos has 2 rows, too few for a sequence of 3 tokens");
  file["test_cases"][0]["input"].erase("pos_ids");
  EXPECT_EQ(sentence_about(file.dump()),
            "f.json: case \"a\": without pos_ids, cos needs a row for each of 6 tokens, but has 2");
}

TEST(BadCases, OtherOperators) {
  const auto rope = [](const json& shape) {
    const json tensor = {{"shape", {4, 6}}, {"dtype", "float32"}};
    const json x = {{"shape", shape}, {"dtype", "float32"}};
    return json{{"op", "rope"},
                {"test_cases",
                 {{{"id", "r"},
                   {"seed", 1},
                   {"rtol", 0},
                   {"atol", 0},
                   {"input", {{"x", x}, {"cos", tensor}, {"sin", tensor}}},
                   {"output", {{"y", x}}}}}}}
        .dump();
  };
  EXPECT_EQ(sentence_about(rope({2, 3, 2, 6})), "no error");
  EXPECT_EQ(sentence_about(rope({2, 3, 2, 5})),
            "f.json: case \"r\": x has 5 values to a head, but they must be pairs");
  EXPECT_EQ(
      sentence_about(rope({2, 3, 5, 6})),
      "f.json: case \"r\": without pos_ids, cos needs a row for each of 10 tokens, but has 4");
}

}  // namespace
}  // namespace tessera::ops::verify
