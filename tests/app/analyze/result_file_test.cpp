// Reading result files: each kind is known, and what is wrong is told in one sentence.
#include "app/analyze/result_file.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tessera/error.h>

#include "io/json_file.h"
#include "tests/app/analyze/page.h"

namespace tessera::app::analyze {
namespace {

using nlohmann::json;
using testing::data_file;
using testing::data_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::vector<std::string>& all_files() {
  static const std::vector<std::string> names = {"batch.json",   "compare.json", "decode-once.json",
                                                 "kernels.json", "memory.json",  "prefill.json",
                                                 "prolog.json"};
  return names;
}

std::string refusal(const std::string& text) {
  try {
    ResultFile::parse(text, "a.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadJson);
    return error.what();
  }
  return "accepted";
}

std::string refusal(const json& value) {
  return refusal(value.dump());
}

TEST(ResultFile, EveryKindIsKnown) {
  EXPECT_EQ(std::get<StepResults>(data_file("batch.json").results).results.size(), 3u);
  EXPECT_EQ(std::get<StepResults>(data_file("decode-once.json").results).results.size(), 1u);
  EXPECT_EQ(std::get<StepResults>(data_file("prefill.json").results).results.size(), 3u);
  EXPECT_EQ(std::get<PrologResults>(data_file("prolog.json").results).results.size(), 7u);
  EXPECT_EQ(std::get<KernelResults>(data_file("kernels.json").results).results.size(), 8u);
  EXPECT_EQ(std::get<MemoryResults>(data_file("memory.json").results).weights.size(), 7u);
  const auto comparison = std::get<ComparisonResults>(data_file("compare.json").results);
  EXPECT_EQ(comparison.cases.size(), 5u);
  EXPECT_EQ(comparison.n_cases, 6u);
  EXPECT_EQ(comparison.a, "--baseline");
  EXPECT_FALSE(comparison.cases[4].speedup);
}

TEST(ResultFile, WhatIsNoResultFile) {
  EXPECT_THAT(refusal(std::string("tokens: 12")), StartsWith("a.json: "));
  EXPECT_THAT(refusal(std::string("")), StartsWith("a.json: "));
  EXPECT_EQ(refusal(json::array()), "a.json: must hold a JSON object, not an array");
  EXPECT_EQ(refusal(json{{"weight_map", 1}}),
            "a.json: \"command\" is missing, so this is no result file of tessera bench");
  EXPECT_EQ(refusal(json{{"command", "bench coffee"}}),
            "a.json: \"command\" is \"bench coffee\", whose files are not known here; known are "
            "bench batch, bench compare, bench decode, bench kernels, bench memory, bench prefill, "
            "bench prolog");
  EXPECT_EQ(refusal(json{{"command", 3}}), "a.json: \"command\" must be a string, not 3");
}

TEST(ResultFile, NumbersThatCannotBe) {
  const json batch = data_json("batch.json");
  const auto with = [&](const std::string& pointer, const json& value) {
    json changed = batch;
    changed[json::json_pointer(pointer)] = value;
    return refusal(changed);
  };
  EXPECT_EQ(with("/results/1/tokens_per_second/median", "fast"),
            "a.json: \"results[1].tokens_per_second.median\" must be a number, not \"fast\"");
  EXPECT_EQ(with("/results/0/tokens_per_second/min", 0),
            "a.json: \"results[0].tokens_per_second.min\" must be a number from 1e-12 to 1e+15, "
            "not 0");
  EXPECT_EQ(
      with("/results/0/gb_per_second/max", 1e300),
      "a.json: \"results[0].gb_per_second.max\" must be a number from 0 to 1e+15, not 1e+300");
  EXPECT_EQ(with("/results/0/limit/samples", json::array()),
            "a.json: \"results[0].limit.samples\" must be an array of at least one number, not an "
            "array");
  EXPECT_THAT(with("/results/0/limit/samples/0", 1), HasSubstr("\"results[0].limit.samples\""));
  EXPECT_THAT(with("/results/0/limit/median", 1e9), HasSubstr("\"results[0].limit.median\""));
  EXPECT_EQ(with("/results/0/batch", 0),
            "a.json: \"results[0].batch\" must be an integer from 1 to 1000000000000000, not 0");
}

TEST(ResultFile, AnIntervalTheWrongWayRound) {
  json compare = data_json("compare.json");
  std::swap(compare["results"][0]["speedup"]["low"], compare["results"][0]["speedup"]["high"]);
  EXPECT_THAT(refusal(compare), HasSubstr("\"results[0].speedup.low\" must be no more than"));
}

TEST(ResultFile, ALaterFormatIsNotGuessed) {
  json compare = data_json("compare.json");
  compare["format"] = 2;
  EXPECT_EQ(refusal(compare), "a.json: \"format\" must be 1, the one that is known, not 2");
}

// The example that documents bench compare.
TEST(ResultFile, TheDocumentedComparisonIsRead) {
  const std::string path = TESSERA_TEST_DATA "/compare/example_results.json";
  const json file = read_json_file(path);
  const auto read = std::get<ComparisonResults>(ResultFile::read(path).results);
  ASSERT_EQ(read.cases.size(), file.at("results").size());
  for (std::size_t i = 0; i < read.cases.size(); ++i) {
    const json& result = file.at("results").at(i);
    EXPECT_EQ(read.cases[i].status, result.at("status"));
    EXPECT_EQ(read.cases[i].speedup.has_value(), !result.at("speedup").is_null());
    if (!read.cases[i].speedup) continue;
    EXPECT_EQ(read.cases[i].speedup->median, result.at("speedup").at("median"));
    EXPECT_EQ(read.cases[i].a->samples,
              result.at("a").at("tokens_per_second").at("samples").get<std::vector<double>>());
  }
}

TEST(ResultFile, OneRoundHasNoInterval) {
  json compare = data_json("compare.json");
  compare["results"][0]["speedup"]["low"] = nullptr;
  compare["results"][0]["speedup"]["high"] = nullptr;
  const auto read = std::get<ComparisonResults>(testing::parsed(compare, "a.json").results);
  EXPECT_TRUE(read.cases[0].speedup);
  EXPECT_FALSE(read.cases[0].speedup->low);
}

struct Keys {
  std::set<std::string> needed;
  std::set<std::string> not_needed;
};

// Takes every key of the file away in turn. What is needed is missed by its name.
void remove_each(const json& file, json& place, Keys& found) {
  if (place.is_array()) {
    for (json& item : place) remove_each(file, item, found);
  }
  if (!place.is_object()) return;
  std::vector<std::string> keys;
  for (const auto& [key, value] : place.items()) keys.push_back(key);
  for (const std::string& key : keys) {
    const json value = place[key];
    place.erase(key);
    const std::string sentence = refusal(file);
    place[key] = value;
    if (sentence == "accepted") {
      found.not_needed.insert(key);
      continue;
    }
    found.needed.insert(key);
    EXPECT_THAT(sentence, StartsWith("a.json: \""));
    EXPECT_THAT(sentence, HasSubstr(key + "\" is missing"));
    EXPECT_EQ(sentence.find('\n'), std::string::npos);
    remove_each(file, place[key], found);
  }
}

Keys keys_of(const std::string& name) {
  json file = data_json(name);
  for (const char* list : {"results", "cases"}) {  // one of several alike is enough
    if (file.contains(list) && file[list].size() > 1) file[list] = json::array({file[list][0]});
  }
  Keys found;
  remove_each(file, file, found);
  return found;
}

TEST(ResultFile, WhatIsMissingIsNamed) {
  const std::set<std::string> not_needed = {
      // Of the head of the file.
      "threads", "model", "layers", "dtype", "mode", "kernels", "flags", "repeat",
      // Of steps, and of single operators.
      "by_op", "read_gb_per_second", "dot_gflop_per_second", "experts_per_step", "op", "fastest",
      // Of memory, a part of the weights.
      "attention", "dense", "experts", "head", "norms", "routers", "shared_experts"};
  for (const std::string& name : all_files()) {
    if (name == "compare.json") continue;
    const Keys keys = keys_of(name);
    EXPECT_GT(keys.needed.size(), 12u) << name;
    for (const std::string& key : keys.not_needed) {
      EXPECT_TRUE(not_needed.contains(key)) << key << " of " << name;
    }
  }
}

TEST(ResultFile, WhatIsMissingOfAComparisonIsNamed) {
  EXPECT_THAT(keys_of("compare.json").needed,
              ::testing::IsSupersetOf({"command", "version", "machine", "cpu", "a", "b", "kind",
                                       "settings", "confidence", "cases", "results", "batch",
                                       "output_tokens", "status", "exactness"}));
  // What a result with a speed needs besides.
  json compare = data_json("compare.json");
  compare["results"][0]["a"].erase("tokens_per_second");
  EXPECT_EQ(refusal(compare),
            "a.json: \"results[0].a.tokens_per_second\" is missing, but it is needed");
  compare["results"][0].erase("metric");
  EXPECT_EQ(refusal(compare), "a.json: \"results[0].metric\" is missing, but it is needed");
}

}  // namespace
}  // namespace tessera::app::analyze
