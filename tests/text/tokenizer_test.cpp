#include "text/tokenizer.h"

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tessera/error.h>

#include "small_tokenizer.h"
#include "text/stream_decoder.h"

namespace tessera::text {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;

const std::string kV2 = TESSERA_TEXT_DATA "/deepseek-v2-lite-chat";
const std::string kV3 = TESSERA_TEXT_DATA "/deepseek-v3";

Tokenizer parse(const Json& json) {
  return Tokenizer::parse(json.dump(), "test");
}

Json with_steps(const Json& steps) {
  Json json = small_tokenizer();
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  json["pre_tokenizer"]["pretokenizers"].push_back(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  return json;
}

Json split(const Json& pattern, const std::string& behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

template <typename Function>
void expect_error(Function function, ErrorCode code, const std::string& sentence) {
  try {
    function();
    ADD_FAILURE() << "no error: " << sentence;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), sentence);
    EXPECT_EQ(to_string(error.code()), to_string(code));
  }
}

void expect_parse_error(const Json& json, ErrorCode code, const std::string& sentence) {
  expect_error([&] { parse(json); }, code, sentence);
}

TEST(Tokenizer, MergesInOrderOfRank) {
  const Tokenizer tokenizer = parse(small_tokenizer());
  EXPECT_EQ(tokenizer.encode("abcab", SpecialTokens::kParse), (Ids{257, 256}));
  EXPECT_EQ(tokenizer.encode("", SpecialTokens::kParse), Ids{});
  EXPECT_EQ(tokenizer.vocab_size(), 258);
}

TEST(Tokenizer, ReadsMergesAsPairs) {
  Json json = small_tokenizer();
  json["model"]["merges"] = Json::parse(R"([["a", "b"], ["ab", "c"]])");
  EXPECT_EQ(parse(json).encode("abc", SpecialTokens::kParse), Ids{257});
}

TEST(Tokenizer, TakesWholePiecesWithIgnoreMerges) {
  Json json = small_tokenizer();
  json["model"]["merges"] = Json::array();
  EXPECT_EQ(parse(json).encode("abc", SpecialTokens::kParse), (Ids{'a', 'b', 'c'}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(parse(json).encode("abc", SpecialTokens::kParse), Ids{257});
}

TEST(Tokenizer, SplitsByEachBehavior) {
  // A split keeps "ab" from merging where it falls between the two letters.
  const auto ids = [](const Json& step) {
    return parse(with_steps(Json::array({step}))).encode("ab-ab", SpecialTokens::kParse);
  };
  const Json dash = {{"String", "-"}};
  EXPECT_EQ(ids(split(dash, "Isolated")), (Ids{256, '-', 256}));
  EXPECT_EQ(ids(split(dash, "Removed")), (Ids{256, 256}));
  EXPECT_EQ(ids(split(dash, "Removed", true)), (Ids{'-'}));
  EXPECT_EQ(ids(split({{"Regex", "b-"}}, "Isolated")), (Ids{'a', 'b', '-', 256}));
  EXPECT_EQ(ids(split({{"Regex", "b"}}, "MergedWithPrevious")), (Ids{256, '-', 256}));
  EXPECT_EQ(ids(split({{"Regex", "a"}}, "MergedWithNext")), (Ids{256, '-', 256}));
  EXPECT_EQ(ids(split({{"Regex", "[ab]"}}, "Contiguous")), (Ids{256, '-', 256}));
}

TEST(Tokenizer, PutsASpaceInFrontOnce) {
  Json json = small_tokenizer();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(parse(json).encode("ab", SpecialTokens::kParse), (Ids{' ', 256}));
  EXPECT_EQ(parse(json).encode(" ab", SpecialTokens::kParse), (Ids{' ', 256}));
}

TEST(Tokenizer, FindsTheLongestAddedToken) {
  Json json = small_tokenizer();
  json["added_tokens"] = {added_token("<x>", 300, true), added_token("<x><y>", 301, true)};
  const Tokenizer tokenizer = parse(json);
  EXPECT_EQ(tokenizer.encode("<x><y><x>", SpecialTokens::kParse), (Ids{301, 300}));
  EXPECT_EQ(tokenizer.encode("<x>", SpecialTokens::kPlain), (Ids{'<', 'x', '>'}));
}

TEST(Tokenizer, StripsAndKeepsWordsWhereAddedTokensSaySo) {
  Json json = small_tokenizer();
  json["added_tokens"] = {added_token("LL", 300, false), added_token("RR", 301, false),
                          added_token("WW", 302, false)};
  json["added_tokens"][0]["lstrip"] = true;
  json["added_tokens"][1]["rstrip"] = true;
  json["added_tokens"][2]["single_word"] = true;
  const Tokenizer tokenizer = parse(json);
  EXPECT_EQ(tokenizer.encode("a  LL ", SpecialTokens::kParse), (Ids{'a', 300, ' '}));
  EXPECT_EQ(tokenizer.encode(" RR  a", SpecialTokens::kParse), (Ids{' ', 301, 'a'}));
  EXPECT_EQ(tokenizer.encode("WW xWW -WW", SpecialTokens::kParse),
            (Ids{302, ' ', 'x', 'W', 'W', ' ', '-', 302}));
}

TEST(Tokenizer, RecognisesControlTokensOnlyOutsideUserText) {
  Json json = small_tokenizer();
  json["added_tokens"] = {added_token("<｜x｜>", 300, true), added_token("øø", 301, false)};
  const Tokenizer tokenizer = parse(json);
  MarkedText text{"<｜x｜>", {}};
  text.append(MarkedText::from_user("<｜x｜>øø"));
  text.append("<｜x｜><｜");
  text.append(MarkedText::from_user("x｜>"));
  const Ids plain = tokenizer.encode("<｜x｜>", SpecialTokens::kPlain);
  Ids expected{300};
  expected.insert(expected.end(), plain.begin(), plain.end());
  expected.push_back(301);
  expected.push_back(300);
  expected.insert(expected.end(), plain.begin(), plain.end());
  EXPECT_EQ(tokenizer.encode(text), expected);
}

TEST(Tokenizer, RepairsInvalidUtf8) {
  const Tokenizer tokenizer = parse(small_tokenizer());
  const auto round_trip = [&](const std::string& text) {
    return tokenizer.decode(tokenizer.encode(text, SpecialTokens::kParse), false);
  };
  EXPECT_EQ(round_trip("a\xFF"), "a\uFFFD");
  EXPECT_EQ(round_trip("\xE4\xB8"), "\uFFFD");
  EXPECT_EQ(round_trip("\xF0\x9F\x98!"), "\uFFFD!");
  EXPECT_EQ(round_trip("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(round_trip("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
}

TEST(Tokenizer, KnowsTheTokensOfTheModelFolder) {
  for (const auto& [folder, bos] : {std::pair(kV2, 100000), std::pair(kV3, 0)}) {
    const Tokenizer tokenizer = Tokenizer::load(folder);
    EXPECT_EQ(tokenizer.bos_id(), bos);
    EXPECT_EQ(tokenizer.eos_id(), bos + 1);
    EXPECT_TRUE(tokenizer.add_bos());
    EXPECT_EQ(tokenizer.bos_token(), "<｜begin▁of▁sentence｜>");
    EXPECT_EQ(tokenizer.id_of("<｜end▁of▁sentence｜>"), bos + 1);
    EXPECT_EQ(tokenizer.id_of("no such token"), std::nullopt);
    EXPECT_TRUE(tokenizer.is_special(bos));
    EXPECT_FALSE(tokenizer.is_special(1 << 30));
  }
}

TEST(Tokenizer, PutsExactlyOneBosInFrontOfAPrompt) {
  const Tokenizer tokenizer = Tokenizer::load(kV2);
  EXPECT_EQ(tokenizer.encode_prompt("Hi", SpecialTokens::kPlain).front(), 100000);
  EXPECT_EQ(tokenizer.encode_prompt("Hi", SpecialTokens::kPlain).size(), 2u);
  EXPECT_EQ(tokenizer.encode_prompt("<｜begin▁of▁sentence｜>Hi", SpecialTokens::kParse),
            tokenizer.encode_prompt("Hi", SpecialTokens::kPlain));
  EXPECT_EQ(tokenizer.encode_prompt("", SpecialTokens::kPlain), Ids{100000});
}

TEST(Tokenizer, TakesBosFromATemplate) {
  Json json = small_tokenizer();
  json["added_tokens"] = {added_token("<s>", 300, true)};
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single",
                             {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  const Tokenizer tokenizer = parse(json);
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_EQ(tokenizer.encode_prompt("a", SpecialTokens::kPlain), (Ids{300, 'a'}));
}

TEST(Tokenizer, StaysLinearOnHostileTexts) {
  for (const std::string& folder : {kV2, kV3}) {
    const Tokenizer tokenizer = Tokenizer::load(folder);
    for (const std::string unit : {"a", " ", "\n", "中", "1", " \r\n", "<｜", "ab"}) {
      std::string text;
      while (text.size() < 200'000) text += unit;
      text += "x";
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, SpecialTokens::kPlain), false), text);
    }
  }
}

TEST(Tokenizer, SurvivesRandomBytes) {
  const Tokenizer tokenizer = Tokenizer::load(kV3);
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const Ids ids = tokenizer.encode(text, SpecialTokens::kParse);
    EXPECT_EQ(tokenizer.encode(tokenizer.decode(ids, false), SpecialTokens::kParse), ids);
  }
}

TEST(Tokenizer, NamesTheFolderWithoutATokenizer) {
  expect_error(
      [] { Tokenizer::load("/nowhere/model"); }, ErrorCode::kFileNotFound,
      "the model folder '/nowhere/model' has no tokenizer.json; download it along with the "
      "weights");
}

TEST(Tokenizer, RefusesUnknownIds) {
  const Tokenizer tokenizer = parse(small_tokenizer());
  for (const std::int32_t id : {-1, 258, INT32_MAX}) {
    const std::string sentence =
        "the token id " + std::to_string(id) + " is not in the vocabulary (0 to 257)";
    expect_error([&] { tokenizer.decode(Ids{id}, false); }, ErrorCode::kInvalidArgument, sentence);
    expect_error([&] { StreamDecoder(tokenizer).push(id); }, ErrorCode::kInvalidArgument, sentence);
  }
}

TEST(Tokenizer, RefusesWhatItDoesNotKnowByName) {
  const auto changed = [](const char* pointer, const Json& value) {
    Json json = small_tokenizer();
    json[Json::json_pointer(pointer)] = value;
    return json;
  };
  const auto unsupported = [](const Json& json, const std::string& sentence) {
    expect_parse_error(json, ErrorCode::kUnsupported, "test: " + sentence);
  };
  unsupported(changed("/normalizer", {{"type", "NFC"}}), "normalizer: 'NFC' is not supported");
  unsupported(changed("/decoder/type", "Metaspace"), "decoder: 'Metaspace' is not supported");
  unsupported(changed("/pre_tokenizer/type", "Whitespace"),
              "pre_tokenizer: 'Whitespace' is not supported");
  unsupported(changed("/model/type", "Unigram"),
              "model: the type \"Unigram\" is not supported, only \"BPE\"");
  unsupported(changed("/model/dropout", 0.1), "model: 'dropout' is not supported");
  unsupported(changed("/model/byte_fallback", true), "model: 'byte_fallback' is not supported");
  unsupported(changed("/model/continuing_subword_prefix", "##"),
              "model: 'continuing_subword_prefix' is not supported");
  unsupported(changed("/model/novelty", 1), "model: 'novelty' is not supported");
  unsupported(changed("/novelty", 1), "the tokenizer: 'novelty' is not supported");
  unsupported(with_steps(Json::array({split({{"Regex", "\\bx"}}, "Isolated")})),
              "the regular expression '\\bx' uses '\\b', which is not supported");
  unsupported(with_steps(Json::array({split({{"Regex", "[a-z&&[^b]]"}}, "Isolated")})),
              "the regular expression '[a-z&&[^b]]' uses '&&' in a character class, which is not "
              "supported");
}

TEST(Tokenizer, ExplainsBrokenFiles) {
  const auto bad = [](const std::string& text, const std::string& sentence) {
    expect_error([&] { Tokenizer::parse(text, "test"); }, ErrorCode::kBadTokenizer,
                 "test: " + sentence);
  };
  bad("", "not valid JSON at byte 1");
  bad("[]", "not a JSON object");
  bad("{}", "the object 'model' is missing");
  Json json = small_tokenizer();
  json["model"]["merges"] = {"a b c"};
  bad(json.dump(), "model.merges: 'a b c' is not two tokens with one space between");
  json["model"]["merges"] = {"a q", "b a"};
  bad(json.dump(), "model.merges: 'aq' is not in the vocabulary");
  json["model"]["merges"] = Json::array();
  json["model"]["vocab"]["new"] = 5;
  EXPECT_THROW(parse(json), Error);
  json["model"]["vocab"]["new"] = "x";
  bad(json.dump(), "model.vocab: the id of 'new' is not an integer");
  bad(with_steps(Json::array({split({{"Regex", "(a"}}, "Isolated")})).dump(),
      "the regular expression '(a' cannot be compiled: missing closing parenthesis");
}

TEST(StreamDecoder, NeverSplitsACharacter) {
  const Tokenizer tokenizer = parse(small_tokenizer());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.push(0xB8), "");
  EXPECT_EQ(decoder.push(0xAD), "中");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push('a'), "\uFFFDa");
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace tessera::text
