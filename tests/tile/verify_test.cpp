// The verifier's refusals.
#include "tile/ir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tile/ir/parse.h"

namespace tessera::tile::ir {
namespace {

void expect_refused(const std::string& body, const std::string& words) {
  const std::string text =
      "kernel k { symbol t in 1..8 in x: fp32[t, 8] in i: int32[t] in w: fp32 panels[32, 8] out y: "
      "fp32[t, 8] " +
      body + " }";
  try {
    verify(parse(text), "after a pass");
    ADD_FAILURE() << "accepted: " << body;
  } catch (const KernelError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(words)) << body;
    EXPECT_THAT(error.what(), testing::HasSubstr("after a pass"));
  }
}

TEST(Verify, NamesAndValues) {
  expect_refused("in x: fp32[2]", "declared twice");
  expect_refused("loop (t < 3) { }", "defined twice");
  expect_refused("loop (j < u) { }", "unknown name u");
  expect_refused("%0 = view z[0, 0] : fp32[1, 8]", "no tensor z");
  expect_refused("%0 = neg %1 : fp32", "%1 is not defined here");
  expect_refused("%0 = const 1 : fp32 %0 = const 1 : fp32", "%0 is defined twice");
  expect_refused("loop (j < 2) { %0 = const 1 : fp32[1, 8] } assemble %0, y[0, 0]",
                 "%0 is not defined here");
}

TEST(Verify, TypesAndRanks) {
  expect_refused("%0 = view x[0, 0] : bf16[1, 8]", "the type must be fp32[1, 8]");
  expect_refused("%0 = const 1 : fp32[1, 8] %1 = exp %0 : fp32[1, 9]",
                 "the type must be fp32[1, 8]");
  expect_refused("%0 = const 1 : fp32[1, 8] assemble %0, y[0]", "y has 2 dimensions");
  expect_refused("%0 = const 1 : fp32[1, 8] assemble %0, x[0, 0]", "x is an input");
  expect_refused("%0 = weight x : fp32[1, 8]", "not packed");
}

TEST(Verify, Strides) {
  expect_refused("in z: fp32[t, 8] strides [8]", "2 dimensions and 1 strides");
  expect_refused("in z: fp32[t, 8] strides [8, 2]", "the last dimension of z has stride 2");
  expect_refused("in z: fp32[t, 8] strides [z@0, 1]", "unknown name z@0");
  expect_refused("local z: fp32[t, 8] strides [9, 1]", "local z has strides");
  expect_refused("in z: fp32 panels[32, 8] strides [9, 1]", "in z has strides");
}

TEST(Verify, Places) {
  expect_refused("%0 = load x[0, 0] : fp32", "only inside nest");
  expect_refused("nest (a < 8) { %0 = view x[0, 0] : fp32[1, 8] }", "not inside nest");
  expect_refused("nest (a < 8) { %0 = load x[0, a] : fp32 accumulate_sum %0, y[0, 0] }",
                 "no reducing variable");
  expect_refused("nest (a < 8) { %0 = acc [0, a] : fp32 store %0, y[0, a] }", "only in a sink");
  expect_refused("tasks (a < 8) chunk [1] { }", "tasks outside a phase");
  expect_refused("phase { loop (a < 2) { } }", "outside tasks");
  expect_refused("contract (m < 1, n < 32; k < 8) { %0 = load x[m, k] : fp32 } { }", "two loads");
  expect_refused("unroll (r < t) by [1, 4] { } { }", "descend to 1");
  expect_refused("%0 = const 1 : fp32 %1 = lt %0, %0 : bool nest () { store %1, y[0, 0] }",
                 "comparison");
}

}  // namespace
}  // namespace tessera::tile::ir
