// The IR's text form: what is printed is read back the same, and what is no kernel is refused.
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tile/ir/parse.h"
#include "tile/ir/print.h"
#include "tile/ir/verify.h"
#include "tile/passes/pipeline.h"

namespace tessera::tile::ir {
namespace {

constexpr const char* kText = R"(kernel norm {
  symbol t in 1..*
  symbol s in 2..4
  symbol z@0 in 0..*
  symbol z@1 in 0..*
  in x: bf16[t, 64]
  in w: bf16 panels[96, 64]
  in slot: int32[t]
  out y: bf16[t, 96]
  inout z: fp16[t, 3, 8] strides [z@0, z@1, 1]
  out page: fp32[s, 96]
  local kept: fp32[mul(s, t), 96]
  limit slot < s
  option cube_tile = [8, 0, 64]
  unroll (row < t) by [4, 1] {
    %0 = view x[row, 0] : bf16[4, 64]
    %1 = weight w : bf16[96, 64]
    %2 = matmul %0, %1 trans [0, 1] : fp32[4, 96]
    assemble %2, y[row, 0]
  } {
    %3 = view x[row, 0] step [1, 1] : bf16[1, 64]
    %4 = mul %3, %3 : fp32[1, 64]
    %5 = sum %4 axis [1] : fp32[1, 1]
    %6 = const 1e-06 : fp32
    %7 = add %5, %6 : fp32[1, 1]
    %8 = lt %7, %6 : bool[1, 1]
    %9 = const -inf : fp32
    %10 = where %8, %9, %7 : fp32[1, 1]
    %11 = expand %10 : fp32[1, 96]
    assemble %11, y[row, 0]
  }
  loop (i < div(t + 7, 8)) {
    %12 = view x[8*i, 0] : bf16[8, 64] valid [min(-8*i + t, 8), 64]
    %13 = max %12 axis [0] : fp32[1, 64]
    %14 = reshape %13 : fp32[64]
    %15 = slice %14 at [3] : fp32[32]
    %16 = concat %15, %14 axis [0] : fp32[96]
    %17 = reshape %16 : fp32[1, 96]
    scatter %17, page[slot[i], @1]
  }
}
)";

TEST(IrText, RoundTrip) {
  const Kernel kernel = parse(kText);
  verify(kernel, "in the test");
  EXPECT_EQ(print(kernel), kText);
}

TEST(IrText, RoundTripOfEveryStage) {
  Kernel kernel = parse(R"(kernel k {
  symbol t in 1..8
  in x: bf16[t, 64]
  in w: bf16 panels[96, 64]
  out y: bf16[3, t, 32]
  unroll (row < t) by [4, 1] {
    %0 = view x[row, 0] : bf16[4, 64]
    %1 = weight w : bf16[96, 64]
    %2 = matmul %0, %1 trans [0, 1] : fp32[4, 96]
    %3 = reshape %2 : fp32[4, 3, 32]
    %4 = transpose %3 perm [1, 0, 2] : fp32[3, 4, 32]
    assemble %4, y[0, row, 0]
  } {
    %5 = view x[row, 0] : bf16[1, 64]
    %6 = weight w : bf16[96, 64]
    %7 = matmul %5, %6 trans [0, 1] : fp32[1, 96]
    %8 = reshape %7 : fp32[1, 3, 32]
    %9 = transpose %8 perm [1, 0, 2] : fp32[3, 1, 32]
    assemble %9, y[0, row, 0]
  }
}
)");
  for (const Pass& pass : pass_list()) {
    pass.run(kernel);
    const std::string text = print(kernel);
    EXPECT_EQ(print(parse(text)), text) << pass.name;
    verify(parse(text), pass.name);
  }
}

TEST(IrText, LocationsAreReadBack) {
  Kernel kernel = parse(
      "kernel k { out y: fp32[4] %0 = const 1 : fp32[4] loc \"a.cpp\":12 assemble %0, y[0] }");
  EXPECT_EQ(kernel.body[0].location, (Location{"a.cpp", 12}));
  EXPECT_EQ(print(parse(print(kernel, {.locations = true})), {.locations = true}),
            print(kernel, {.locations = true}));
}

TEST(IrText, IndexExpressionsHaveOneForm) {
  const auto printed = [](const std::string& index) {
    const Kernel kernel =
        parse("kernel k { symbol a in 1..* symbol b in 1..* out y: fp32[" + index + "] }");
    return kernel.memories[0].dims[0].to_string();
  };
  EXPECT_EQ(printed("b + a"), "a + b");
  EXPECT_EQ(printed("2*(a + 3) - a"), "a + 6");
  EXPECT_EQ(printed("a - a"), "0");
  EXPECT_EQ(printed("(a + 1)*(b + 2)"), "2*a + b + mul(a, b) + 2");
  EXPECT_EQ(printed("min(a + 3, a + 5)"), "a + 3");
  EXPECT_EQ(printed("div(17, 5) + mod(17, 5)"), "5");
  EXPECT_EQ(printed("max(b, a)"), "max(a, b)");
}

void expect_refused(const std::string& text, const std::string& words) {
  try {
    verify(parse(text), "in the test");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const KernelError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

TEST(IrText, WhatIsNoKernelIsRefused) {
  expect_refused("", "expected \"kernel\"");
  expect_refused("kernel k {", "an operation");
  expect_refused("kernel k { } }", "the end");
  expect_refused("kernel k {\n\n  %0 = fly : fp32 }", "line 3");
  expect_refused("kernel k { out y: fp64[4] }", "an element type");
  expect_refused("kernel k { out y: fp32[div(4, 0)] }", "positive divisor");
  expect_refused("kernel k { out y: fp32[99999999999999999999] }", "an integer");
  expect_refused("kernel k { out y: fp32[4294967296*4294967296] }", "smaller expression");
  expect_refused("kernel k { out y: fp32[" + std::string(100, '(') + "1", "less nesting");
  std::string loops = "kernel k { ";
  for (int i = 0; i < 60; ++i) loops += "loop (i" + std::to_string(i) + " < 2) { ";
  expect_refused(loops, "less nesting");
  expect_refused("kernel k { %0 = const 1 : fp32[-3] }", "negative");
  expect_refused("kernel k { %0 = add %1 : fp32 }", "number of operands");
}

TEST(IrText, DamagedTextNeverCrashes) {
  std::mt19937 engine(1);
  const std::string text = kText;
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    const auto any = [&](std::size_t n) {
      return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine);
    };
    for (std::size_t i = 0; i <= any(3); ++i) {
      const std::size_t at = any(damaged.size());
      switch (any(4)) {
        case 0:
          damaged.erase(at, 1 + any(8));
          break;
        case 1:
          damaged.insert(at, 1, text[any(text.size())]);
          break;
        case 2:
          damaged[at] = static_cast<char>(any(128));
          break;
        default:
          damaged.insert(at, text.substr(any(text.size()), any(30)));
      }
    }
    try {
      Kernel kernel = parse(damaged);
      run_passes(kernel);
      ++accepted;
    } catch (const KernelError&) {
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace tessera::tile::ir
