#include "engine/stop_matcher.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/io/expect_error.h"

namespace tessera {
namespace {

struct Outcome {
  std::string text;
  bool stopped;

  bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string text;
  for (const std::string& piece : pieces) text += matcher.push(piece);
  text += matcher.finish();
  return {text, matcher.stopped()};
}

// The text cut into pieces: bit i of `cuts` says whether a piece ends after byte i.
std::vector<std::string> pieces_of(const std::string& text, unsigned cuts) {
  std::vector<std::string> pieces(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    pieces.back() += text[i];
    if ((cuts >> i & 1u) != 0 && i + 1 < text.size()) pieces.emplace_back();
  }
  return pieces;
}

// By definition: the text before the stop string that is complete first (of several that end there,
// the one that starts first).
Outcome by_definition(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

void expect_same_for_all_pieces(const std::vector<std::string>& stops, const std::string& text) {
  const Outcome expected = by_definition(stops, text);
  for (unsigned cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
    EXPECT_EQ(run(stops, pieces_of(text, cuts)), expected) << text << " cut by " << cuts;
  }
}

TEST(StopMatcher, EndsBeforeAStopStringSplitInEveryWay) {
  EXPECT_EQ(by_definition({"stop"}, "go, stop it"), (Outcome{"go, ", true}));
  expect_same_for_all_pieces({"stop"}, "go, stop it");
}

TEST(StopMatcher, OverlappingStopStringsSplitInEveryWay) {
  const std::vector<std::string> stops = {"ab", "abc", "bcd"};
  for (const char* text : {"xxabcdxx", "xxbcdabc", "aabbccdd", "abc", "bcbcd", "bcabcd"}) {
    expect_same_for_all_pieces(stops, text);
  }
}

TEST(StopMatcher, AStopInsideALongerOneWinsHoweverTheTextIsSplit) {
  const std::vector<std::string> stops = {"abcd", "bc", "c"};
  EXPECT_EQ(by_definition(stops, "xabcd"), (Outcome{"xa", true}));
  for (const char* text : {"xabcd", "abcd", "aabcd", "xc", "abxabcd"}) {
    expect_same_for_all_pieces(stops, text);
  }
}

TEST(StopMatcher, RepeatedBeginningsSplitInEveryWay) {
  for (const char* text : {"aaaab", "aaabaab", "abaababaab", "aabaaab"}) {
    expect_same_for_all_pieces({"aab"}, text);
    expect_same_for_all_pieces({"abaab", "aaab"}, text);
  }
}

TEST(StopMatcher, AStopAtTheBeginningLeavesNothing) {
  EXPECT_EQ(run({"ab"}, {"abc"}), (Outcome{"", true}));
  EXPECT_EQ(run({"ab"}, {"a", "bc"}), (Outcome{"", true}));
}

TEST(StopMatcher, Utf8StopStrings) {
  EXPECT_EQ(run({"。"}, {"你好", "。", "再见"}), (Outcome{"你好", true}));
  EXPECT_EQ(run({"结束"}, {"没有结", "果。结", "束了"}), (Outcome{"没有结果。", true}));
}

TEST(StopMatcher, PiecesOfCompleteUtf8StayComplete) {
  StopMatcher matcher({"é!"});
  EXPECT_EQ(matcher.push("caf"), "caf");
  EXPECT_EQ(matcher.push("é"), "");
  EXPECT_EQ(matcher.push("è"), "éè");  // è begins with the same byte as é
}

TEST(StopMatcher, WithoutStopStringsEverythingPassesAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.push(""), "");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, HoldsBackNoMoreThanABeginning) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.push("xsto"), "x");
  EXPECT_EQ(matcher.push("s"), "sto");
  EXPECT_EQ(matcher.push("x"), "sx");
}

TEST(StopMatcher, FinishReturnsWhatWasHeldOnce) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.push("x st"), "x ");
  EXPECT_EQ(matcher.finish(), "st");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, NothingFollowsAStop) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.push("a stop b"), "a ");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, RefusesAnEmptyStopString) {
  EXPECT_ERROR(StopMatcher({"a", ""}), ErrorCode::kInvalidArgument,
               "a stop string must not be empty");
}

}  // namespace
}  // namespace tessera
