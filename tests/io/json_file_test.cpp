#include "io/json_file.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/io/expect_error.h"
#include "tests/io/temporary_folder.h"

namespace tessera {
namespace {

JsonObject parse(std::string_view text) {
  return JsonObject::parse(text, "f.json", ErrorCode::kBadConfig);
}

TEST(ParseJson, BuildsTheWholeValue) {
  const std::string text = R"({"a": [1, -2, 0.5, "x", null, true, {"b": []}], "c": {}})";
  EXPECT_EQ(parse_json(text, "f.json"), nlohmann::json::parse(text));
  EXPECT_EQ(parse_json(" 7 ", "f.json"), 7);
}

TEST(ParseJson, SaysWhereTheTextIsBroken) {
  EXPECT_ERROR(
      parse_json("{\n  \"a\": 1,\n  oops\n}", "f.json"), ErrorCode::kBadJson,
      "f.json: line 3, column 3: this is not valid JSON; correct it or download the file again");
  EXPECT_ERROR(
      parse_json("[1] x", "f.json"), ErrorCode::kBadJson,
      "f.json: line 1, column 5: this is not valid JSON; correct it or download the file again");
}

TEST(ParseJson, SaysWhereTheTextStops) {
  EXPECT_ERROR(parse_json("{\n\"a\": [1, 2", "f.json"), ErrorCode::kBadJson,
               "f.json: line 2, column 11: the JSON text ends too early; download the file again");
  EXPECT_ERROR(parse_json("", "f.json"), ErrorCode::kBadJson,
               "f.json: line 1, column 1: the JSON text ends too early; download the file again");
}

TEST(ParseJson, RefusesNumbersThatAreNotFinite) {
  EXPECT_ERROR(
      parse_json("[NaN]", "f.json"), ErrorCode::kBadJson,
      "f.json: line 1, column 2: this is not valid JSON; correct it or download the file again");
  EXPECT_ERROR(
      parse_json("[Infinity]", "f.json"), ErrorCode::kBadJson,
      "f.json: line 1, column 2: this is not valid JSON; correct it or download the file again");
  EXPECT_ERROR(parse_json("[1e999]", "f.json"), ErrorCode::kBadJson,
               "f.json: line 1, column 6: the number is too large");
}

TEST(ParseJson, RefusesTextThatIsNotUtf8) {
  EXPECT_ERROR(
      parse_json("[\"\xff\"]", "f.json"), ErrorCode::kBadJson,
      "f.json: line 1, column 3: this is not valid JSON; correct it or download the file again");
}

TEST(ParseJson, RefusesAKeyTwice) {
  EXPECT_ERROR(parse_json(R"({"a": {"b": 1, "c": 2, "b": 3}})", "f.json"), ErrorCode::kBadJson,
               "f.json: the key \"b\" stands twice in the same object; remove one of them");
  EXPECT_NO_THROW(parse_json(R"({"a": {"a": 1}, "b": {"a": 1}})", "f.json"));
}

TEST(ParseJson, BoundsTheDepth) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse_json(nested(64), "f.json"));
  EXPECT_ERROR(parse_json(nested(65), "f.json"), ErrorCode::kBadJson,
               "f.json: the JSON text nests deeper than 64 levels");
  EXPECT_THROW(parse_json(nested(1'000'000), "f.json"), Error);
}

TEST(ReadJsonFile, NamesTheFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_json_file(folder.write("a.json", "[1]")), nlohmann::json::array({1}));
  EXPECT_ERROR(read_json_file(folder.write("b.json", "[1,]")), ErrorCode::kBadJson,
               folder.name() +
                   "/b.json: line 1, column 4: this is not valid JSON; correct it or download the "
                   "file again");
  EXPECT_ERROR(read_json_file(folder / "c.json"), ErrorCode::kFileNotFound,
               folder.name() + "/c.json: no such file; check the path");
}

TEST(JsonObject, NeedsAnObject) {
  EXPECT_ERROR(parse("[]"), ErrorCode::kBadConfig, "f.json: must hold a JSON object, not an array");
  EXPECT_ERROR(parse("1"), ErrorCode::kBadConfig,
               "f.json: must hold a JSON object, not a single value");
}

TEST(JsonObject, TreatsNullAsAbsent) {
  const JsonObject json = parse(R"({"a": null})");
  EXPECT_FALSE(json.has("a"));
  EXPECT_TRUE(json.mentions("a"));
  EXPECT_FALSE(json.mentions("b"));
  EXPECT_EQ(json.optional_int("a", 0, 1), std::nullopt);
  EXPECT_ERROR(json.required_int("a", 0, 1), ErrorCode::kBadConfig,
               "f.json: \"a\" is null, but it is needed");
  EXPECT_ERROR(json.required_int("b", 0, 1), ErrorCode::kBadConfig,
               "f.json: \"b\" is missing, but it is needed");
}

TEST(JsonObject, ReadsIntegers) {
  const JsonObject json = parse(R"({"a": 7, "b": -3, "c": 9223372036854775807})");
  EXPECT_EQ(json.required_int("a", 7, 7), 7);
  EXPECT_EQ(json.optional_int("b", -3, 0), -3);
  EXPECT_EQ(json.required_int("c", 0, JsonObject::kMaxInt), JsonObject::kMaxInt);
}

TEST(JsonObject, RefusesWhatIsNotAnIntegerInRange) {
  for (const std::string value :
       {"1.5", "2.0", "true", "\"2\"", "0", "-1", "11", "1e300", "9223372036854775808",
        "18446744073709551615", "-9223372036854775808"}) {
    const std::string shown = value == "1e300" ? "1e+300" : value;
    EXPECT_ERROR(parse("{\"a\": " + value + "}").required_int("a", 1, 10), ErrorCode::kBadConfig,
                 "f.json: \"a\" must be an integer from 1 to 10, not " + shown);
  }
  EXPECT_ERROR(parse("{\"a\": []}").required_int("a", 1, 10), ErrorCode::kBadConfig,
               "f.json: \"a\" must be an integer from 1 to 10, not an array");
  EXPECT_ERROR(parse("{\"a\": 9223372036854775808}").required_int("a", 0, JsonObject::kMaxInt),
               ErrorCode::kBadConfig,
               "f.json: \"a\" must be an integer from 0 up, not 9223372036854775808");
}

TEST(JsonObject, ReadsAnIntegerOrAList) {
  const JsonObject json = parse(R"({"one": 1, "many": [1, 2], "none": [], "bad": [1, "x"]})");
  EXPECT_EQ(json.int_or_list("one", 0, 9), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(json.int_or_list("many", 0, 9), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(json.int_or_list("none", 0, 9).empty());
  EXPECT_TRUE(json.int_or_list("absent", 0, 9).empty());
  EXPECT_ERROR(json.int_or_list("bad", 0, 9), ErrorCode::kBadConfig,
               "f.json: \"bad[1]\" must be an integer from 0 to 9, not \"x\"");
}

TEST(JsonObject, ReadsNumbers) {
  const JsonObject json = parse(R"({"a": 2, "b": 0.5, "zero": 0, "text": "1e-6"})");
  EXPECT_EQ(json.required_number("a"), 2.0);
  EXPECT_EQ(json.optional_positive("b"), 0.5);
  EXPECT_ERROR(json.required_positive("zero"), ErrorCode::kBadConfig,
               "f.json: \"zero\" must be a number greater than 0, not 0");
  EXPECT_ERROR(json.optional_number("text"), ErrorCode::kBadConfig,
               "f.json: \"text\" must be a number, not \"1e-6\"");
}

TEST(JsonObject, ReadsStringsAndSwitches) {
  const JsonObject json = parse(R"({"s": "x", "t": true, "l": ["a", "b"], "m": ["a", 1]})");
  EXPECT_EQ(json.required_string("s"), "x");
  EXPECT_EQ(json.optional_bool("t"), true);
  EXPECT_EQ(json.optional_strings("l"), (std::vector<std::string>{"a", "b"}));
  EXPECT_ERROR(json.required_string("t"), ErrorCode::kBadConfig,
               "f.json: \"t\" must be a string, not true");
  EXPECT_ERROR(json.optional_bool("s"), ErrorCode::kBadConfig,
               "f.json: \"s\" must be true or false, not \"x\"");
  EXPECT_ERROR(json.optional_strings("s"), ErrorCode::kBadConfig,
               "f.json: \"s\" must be an array of strings, not \"x\"");
  EXPECT_ERROR(json.optional_strings("m"), ErrorCode::kBadConfig,
               "f.json: \"m\" must be an array of strings, but holds 1");
}

TEST(JsonObject, NamesThePathOfNestedKeys) {
  const JsonObject json = parse(R"({"a": {"b": {"c": "x"}}, "n": 1})");
  const JsonObject nested = json.required_object("a").required_object("b");
  EXPECT_ERROR(nested.required_number("c"), ErrorCode::kBadConfig,
               "f.json: \"a.b.c\" must be a number, not \"x\"");
  EXPECT_ERROR(nested.required_number("d"), ErrorCode::kBadConfig,
               "f.json: \"a.b.d\" is missing, but it is needed");
  EXPECT_ERROR(json.optional_object("n"), ErrorCode::kBadConfig,
               "f.json: \"n\" must be an object, not 1");
}

TEST(JsonObject, OutlivesItsParent) {
  const JsonObject nested = parse(R"({"a": {"b": 3}})").required_object("a");
  EXPECT_EQ(nested.required_int("b", 0, 9), 3);
}

}  // namespace
}  // namespace tessera
