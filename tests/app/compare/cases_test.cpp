#include "app/compare/cases.h"

#include <set>

#include <gtest/gtest.h>

namespace tessera::app {
namespace {

TEST(Cases, BeginWithTheOriginals) {
  const std::vector<Case> cases = default_cases();
  ASSERT_EQ(cases.size(), 7u);
  EXPECT_EQ(to_json(cases[0]).dump(), R"({"batch":1,"output_tokens":10,"prompts":["你好"]})");
  EXPECT_EQ(to_json(cases[3]).dump(),
            R"({"batch":1,"output_tokens":100,"prompts":["请详细介绍一下人工智能的发展历程"]})");
  for (std::size_t i = 4; i < 7; ++i) {
    EXPECT_EQ(cases[i].batch, std::int64_t{1} << (i - 3));
    const std::set<std::string> different(cases[i].prompts.begin(), cases[i].prompts.end());
    EXPECT_EQ(std::ssize(different), cases[i].batch);
  }
}

TEST(Cases, EveryPromptIsUsed) {
  const std::vector<Case> cases = own_cases({1, 2, 4}, {5, 6}, {"x", "y", "z"});
  std::vector<std::vector<std::string>> prompts;
  for (const Case& one : cases) {
    EXPECT_EQ(std::ssize(one.prompts), one.batch);
    if (one.output_tokens == 5) prompts.push_back(one.prompts);
  }
  EXPECT_EQ(cases.size(), 2 * prompts.size());
  EXPECT_EQ(prompts, (std::vector<std::vector<std::string>>{
                         {"x"}, {"y"}, {"z"}, {"x", "y"}, {"z", "x"}, {"x", "y", "z", "x"}}));
}

}  // namespace
}  // namespace tessera::app
