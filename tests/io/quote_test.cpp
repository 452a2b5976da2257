#include "io/quote.h"

#include <string>

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(InQuotes, KeepsOrdinaryNames) {
  EXPECT_EQ(in_quotes("model.layers.0.weight"), "\"model.layers.0.weight\"");
  EXPECT_EQ(in_quotes(""), "\"\"");
  EXPECT_EQ(in_quotes("权重"), "\"权重\"");
}

TEST(InQuotes, EscapesWhatWouldBreakALine) {
  EXPECT_EQ(in_quotes("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(in_quotes("a\x1b[31m\x7f"), "\"a\\x1b[31m\\x7f\"");
  EXPECT_EQ(in_quotes(std::string_view("\0", 1)), "\"\\x00\"");
  EXPECT_EQ(in_quotes("a\"b\\c"), "\"a\\\"b\\\\c\"");
}

TEST(InQuotes, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(in_quotes("\xff"), "\"\\xff\"");
  EXPECT_EQ(in_quotes("\xe6\x9d"), "\"\\xe6\\x9d\"");  // cut short
  EXPECT_EQ(in_quotes("\xe6z\x9d"), "\"\\xe6z\\x9d\"");
}

TEST(OnOneLine, EscapesWhatWouldBreakIt) {
  EXPECT_EQ(on_one_line("\"权重\" \\"), "\"权重\" \\");
  EXPECT_EQ(on_one_line("a\nb\x1b\xc2\x9bz\xff"), "a\\nb\\x1b\\xc2\\x9bz\\xff");
}

TEST(InQuotes, CutsLongNames) {
  EXPECT_EQ(in_quotes(std::string(120, 'a')), '"' + std::string(120, 'a') + '"');
  EXPECT_EQ(in_quotes(std::string(1000, 'a')), '"' + std::string(120, 'a') + "...\"");
}

}  // namespace
}  // namespace tessera
