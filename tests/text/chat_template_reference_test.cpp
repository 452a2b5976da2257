// Rendered conversations, expressions and white space against jinja2
// (tools/reference/chat_cases.py).
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tessera/error.h>

#include "text/chat_template.h"

namespace tessera::text {
namespace {

using Json = nlohmann::ordered_json;

Json reference() {
  std::ifstream file(TESSERA_TEST_DATA "/text/chat_cases.json");
  return Json::parse(file);
}

std::string source_of(const Json& file, const Json& test) {
  const std::string name = test["template"].get<std::string>();
  return file["templates"].contains(name) ? file["templates"][name].get<std::string>() : name;
}

TEST(ChatTemplateReference, RendersAsJinja) {
  const Json file = reference();
  int n_texts = 0;
  for (const Json& test : file["cases"]) {
    if (!test.contains("text")) continue;
    SCOPED_TRACE(test.dump().substr(0, 600));
    ++n_texts;
    try {
      const MarkedText text = ChatTemplate::parse(source_of(file, test)).render(test["variables"]);
      EXPECT_EQ(text.text, test["text"].get<std::string>());
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(n_texts, 350);
}

TEST(ChatTemplateReference, FailsWhereJinjaFails) {
  const Json file = reference();
  int n_errors = 0;
  for (const Json& test : file["cases"]) {
    if (!test.contains("error")) continue;
    SCOPED_TRACE(test.dump().substr(0, 600));
    ++n_errors;
    EXPECT_THROW(ChatTemplate::parse(source_of(file, test)).render(test["variables"]), Error);
  }
  EXPECT_GE(n_errors, 20);
}

}  // namespace
}  // namespace tessera::text
