#include "app/compare/split_words.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/io/expect_error.h"

namespace tessera::app {
namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text) {
  return split_words(text, "--a");
}

TEST(SplitWords, AtSpace) {
  EXPECT_EQ(split("--use_pto  --dtype\tint8\n"), (Words{"--use_pto", "--dtype", "int8"}));
  EXPECT_EQ(split(""), Words{});
  EXPECT_EQ(split("  "), Words{});
}

TEST(SplitWords, AsAShellReadsQuotes) {
  EXPECT_EQ(split(R"(--system 'be brief' x)"), (Words{"--system", "be brief", "x"}));
  EXPECT_EQ(split(R"(--system="a 'b' \"c\" \\ \n")"), (Words{R"(--system=a 'b' "c" \ \n)"}));
  EXPECT_EQ(split(R"('a\'b"c"'d')"), (Words{R"(a\bcd)"}));
  EXPECT_EQ(split(R"(a\ b \'c \\)"), (Words{"a b", "'c", "\\"}));
  EXPECT_EQ(split(R"("" '' x)"), (Words{"", "", "x"}));
  EXPECT_EQ(split("'你 好'"), (Words{"你 好"}));
}

TEST(SplitWords, RunNothing) {
  EXPECT_EQ(split("$HOME `ls` *;|&>x"), (Words{"$HOME", "`ls`", "*;|&>x"}));
}

TEST(SplitWords, RefuseWhatDoesNotEnd) {
  EXPECT_ERROR(split("a 'b"), ErrorCode::kInvalidArgument,
               "--a has a quote that is not closed: \"a 'b\"");
  EXPECT_ERROR(split("a \"b"), ErrorCode::kInvalidArgument,
               "--a has a quote that is not closed: \"a \\\"b\"");
  EXPECT_ERROR(split("a \"b\\\""), ErrorCode::kInvalidArgument,
               "--a has a quote that is not closed: \"a \\\"b\\\\\\\"\"");
  EXPECT_ERROR(split("a\\"), ErrorCode::kInvalidArgument, "--a ends with a backslash: \"a\\\\\"");
}

TEST(JoinWords, ComesApartAgain) {
  const Words words = {"--a=b", "", "it's", "a b", "\"", "\\", "你好", "$x", "\n"};
  EXPECT_EQ(split(join_words(words)), words);
  EXPECT_EQ(join_words({"--use-pto", "x y"}), "--use-pto 'x y'");
}

}  // namespace
}  // namespace tessera::app
