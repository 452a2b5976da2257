// Ids and texts against the tokenizers package (tools/reference/tokenizer_cases.py), with the real
// vocabularies.
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace tessera::text {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;

const std::string kData = TESSERA_TEXT_DATA;

class TokenizerReference : public testing::TestWithParam<std::string> {
 protected:
  // Calls check(case) for each line that has the member.
  template <typename Check>
  void for_each_case(const char* member, Check check) {
    std::ifstream file(kData + "/" + GetParam() + ".jsonl");
    int n_cases = 0;
    for (std::string line; std::getline(file, line) && !HasFailure();) {
      const Json json = Json::parse(line);
      if (!json.contains(member)) continue;
      ++n_cases;
      SCOPED_TRACE(line.substr(0, 400));
      check(json);
    }
    EXPECT_GE(n_cases, 1500);
  }

  const Tokenizer tokenizer_ = Tokenizer::load(kData + "/" + GetParam());
};

TEST_P(TokenizerReference, EncodesAsTheReference) {
  for_each_case("text", [&](const Json& json) {
    EXPECT_EQ(tokenizer_.encode(json["text"].get<std::string>(), SpecialTokens::kParse),
              json["ids"].get<Ids>());
  });
}

TEST_P(TokenizerReference, EncodesUserTextAsTheReferenceWithoutControlTokens) {
  for_each_case("text", [&](const Json& json) {
    EXPECT_EQ(tokenizer_.encode(json["text"].get<std::string>(), SpecialTokens::kPlain),
              json[json.contains("plain") ? "plain" : "ids"].get<Ids>());
  });
}

TEST_P(TokenizerReference, DecodesAsTheReference) {
  for_each_case("decode", [&](const Json& json) {
    const Ids ids = json["decode"].get<Ids>();
    EXPECT_EQ(tokenizer_.decode(ids, false), json["all"].get<std::string>());
    EXPECT_EQ(tokenizer_.decode(ids, true), json["skip"].get<std::string>());
  });
}

TEST_P(TokenizerReference, DecodesWhatItEncoded) {
  for_each_case("text", [&](const Json& json) {
    const std::string text = json["text"].get<std::string>();
    EXPECT_EQ(tokenizer_.decode(tokenizer_.encode(text, SpecialTokens::kParse), false), text);
    EXPECT_EQ(tokenizer_.decode(tokenizer_.encode(text, SpecialTokens::kPlain), true), text);
  });
}

TEST_P(TokenizerReference, StreamsWhatItDecodes) {
  for_each_case("decode", [&](const Json& json) {
    const Ids ids = json["decode"].get<Ids>();
    for (std::size_t n_ids = 0; n_ids <= ids.size(); ++n_ids) {
      const Ids prefix(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n_ids));
      for (const bool skip_special : {false, true}) {
        StreamDecoder decoder(tokenizer_, skip_special);
        std::string text;
        for (const std::int32_t id : prefix) text += decoder.push(id);
        EXPECT_EQ(text + decoder.finish(), tokenizer_.decode(prefix, skip_special));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Models, TokenizerReference,
                         testing::Values("deepseek-v2-lite-chat", "deepseek-v3"),
                         [](const auto& model) {
                           return model.param == "deepseek-v3" ? "DeepSeekV3" : "DeepSeekV2Lite";
                         });

}  // namespace
}  // namespace tessera::text
