// Each pass on text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tile/ir/parse.h"
#include "tile/ir/print.h"
#include "tile/passes/in_place.h"
#include "tile/passes/pipeline.h"

namespace tessera::tile {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string after(const std::string& stage, const std::string& text) {
  return text_after(ir::parse(text), stage);
}

TEST(Unroll, CutsADynamicCountExactly) {
  const std::string text = after("unroll", R"(kernel k {
    symbol t in 17..*
    out y: fp32[t]
    unroll (row < t) by [8, 2, 1] {
      %0 = const 1 : fp32[8] assemble %0, y[row]
    } { %1 = const 1 : fp32[2] assemble %1, y[row]
    } { %2 = const 1 : fp32[1] assemble %2, y[row]
    }
  })");
  EXPECT_THAT(text, HasSubstr("loop (row_by8 < div(t, 8)) {"));
  EXPECT_THAT(text, HasSubstr("assemble %0, y[8*row_by8]"));
  EXPECT_THAT(text, HasSubstr("loop (row_by2 < div(mod(t, 8), 2)) {"));
  EXPECT_THAT(text, HasSubstr("assemble %1, y[8*div(t, 8) + 2*row_by2]"));
  EXPECT_THAT(text, HasSubstr("assemble %2, y[2*div(mod(t, 8), 2) + 8*div(t, 8) + row_by1]"));
}

TEST(Unroll, LeavesOutWhatTheClassDoesNotNeed) {
  const std::string kernel = R"(
    out y: fp32[t]
    unroll (row < t) by [8, 1] { %0 = const 1 : fp32[8] assemble %0, y[row] } {
      %1 = const 1 : fp32[1] assemble %1, y[row] } })";
  EXPECT_THAT(after("unroll", "kernel k { symbol t in 1..1" + kernel), Not(HasSubstr("loop")));
  EXPECT_THAT(after("unroll", "kernel k { symbol t in 3..4" + kernel),
              HasSubstr("loop (row_by1 < t)"));
  EXPECT_THAT(after("unroll", "kernel k { symbol t in 3..4" + kernel), Not(HasSubstr("fp32[8]")));
  EXPECT_THAT(after("unroll", "kernel k { symbol t in 8..8" + kernel), Not(HasSubstr("row_by1")));
}

TEST(InferValid, BoundsDecideMinima) {
  const std::string text = after("infer_valid", R"(kernel k {
    symbol t in 8..8
    in x: fp32[t]
    out y: fp32[t]
    loop (i < div(t + 7, 8)) {
      %0 = view x[8*i] : fp32[8] valid [min(8, t - 8*i)]
      %1 = exp %0 : fp32[8] valid [min(8, t - 8*i)]
      assemble %1, y[8*i]
    }
  })");
  EXPECT_THAT(text, Not(HasSubstr("valid")));
}

TEST(Fold, MapsOfIndicesCostNothing) {
  const std::string text = after("fold", R"(kernel k {
    in x: fp32[4, 6]
    out y: fp32[3, 2, 4]
    %0 = view x[0, 0] : fp32[4, 6]
    %1 = reshape %0 : fp32[4, 3, 2]
    %2 = transpose %1 perm [1, 2, 0] : fp32[3, 2, 4]
    %3 = neg %2 : fp32[3, 2, 4]
    assemble %3, y[0, 0, 0]
  })");
  EXPECT_THAT(text, HasSubstr("nest (d0 < 3, d1 < 2, d2 < 4)"));
  EXPECT_THAT(text, HasSubstr("load x[d2, 2*d0 + d1]"));
  EXPECT_THAT(text, Not(HasSubstr("temp")));
}

TEST(Fold, AFlatStoreIsSplitWhereItsSourceIs) {
  const std::string text = after("fold", R"(kernel k {
    in x: fp32[4, 6]
    out y: fp32[24]
    %0 = view x[0, 0] : fp32[4, 6]
    %1 = transpose %0 perm [1, 0] : fp32[6, 4]
    %2 = reshape %1 : fp32[24]
    assemble %2, y[0]
  })");
  EXPECT_THAT(text, HasSubstr("nest (d0 < 6, d1 < 4)"));
  EXPECT_THAT(text, HasSubstr("load x[d1, d0]"));
  EXPECT_THAT(text, HasSubstr("y[4*d0 + d1]"));
}

TEST(Fold, AConcatIsCut) {
  const std::string text = after("fold", R"(kernel k {
    in x: fp32[5]
    in z: fp32[7]
    out y: fp32[12]
    %0 = view x[0] : fp32[5]
    %1 = view z[0] : fp32[7]
    %2 = concat %0, %1 axis [0] : fp32[12]
    assemble %2, y[0]
  })");
  EXPECT_THAT(text, HasSubstr("nest (d0 < 5)"));
  EXPECT_THAT(text, HasSubstr("load z[d0]"));
  EXPECT_THAT(text, HasSubstr("y[d0 + 5]"));
}

constexpr const char* kSplit = R"(kernel k {
    symbol t in 1..1
    in x: bf16[t, 64]
    in w: bf16 panels[80, 64]
    out a: bf16[2, 24]
    out b: bf16[2, 16]
    %0 = view x[0, 0] : bf16[1, 64]
    %1 = weight w : bf16[80, 64]
    %2 = matmul %0, %1 trans [0, 1] : fp32[1, 80]
    %3 = reshape %2 : fp32[2, 40]
    %4 = slice %3 at [0, 0] : fp32[2, 24]
    %5 = slice %3 at [0, 24] : fp32[2, 16]
    assemble %4, a[0, 0]
    assemble %5, b[0, 0]
  })";

TEST(Epilogue, SegmentsOfColumnsGoStraightToTheirTensors) {
  EXPECT_THAT(after("fold", kSplit), HasSubstr("temp t2"));
  const std::string text = after("epilogue", kSplit);
  EXPECT_THAT(text, Not(HasSubstr("temp")));
  EXPECT_THAT(text, HasSubstr("acc [0, 40*d0 + d1]"));
  EXPECT_THAT(text, HasSubstr("acc [0, 40*d0 + d1 + 24]"));
}

TEST(Epilogue, CanBeSwitchedOff) {
  // Options follow the tensors.
  std::string moved = kSplit;
  moved.insert(moved.find("    %0"), "    option fold_epilogue = [0]\n");
  EXPECT_THAT(after("epilogue", moved), HasSubstr("temp t2"));
  EXPECT_THAT(after("scratch", moved), HasSubstr("scratch t2: fp32[1, 80] at 0"));
}

TEST(Pairs, InterleavedStoresGoTogether) {
  const std::string text = after("pairs", R"(kernel k {
    in x: fp32[8, 64]
    out y: fp32[8, 64]
    %0 = view x[0, 0] step [1, 2] : fp32[8, 32]
    %1 = view x[0, 1] step [1, 2] : fp32[8, 32]
    %2 = sub %0, %1 : fp32[8, 32]
    %3 = add %0, %1 : fp32[8, 32]
    assemble %2, y[0, 0] step [1, 2]
    assemble %3, y[0, 1] step [1, 2]
  })");
  EXPECT_EQ(text.find("nest"), text.rfind("nest")) << text;
  EXPECT_EQ(text.find("load x[d0, 2*d1]"), text.rfind("load x[d0, 2*d1]")) << text;
}

TEST(Pairs, WhatTheOtherStoresIsNotReadTooEarly) {
  const std::string text = after("pairs", R"(kernel k {
    in x: fp32[8, 64]
    out y: fp32[8, 64]
    %0 = view x[0, 0] step [1, 2] : fp32[8, 32]
    assemble %0, y[0, 0] step [1, 2]
    %1 = view y[0, 0] step [1, 2] : fp32[8, 32]
    assemble %1, y[0, 1] step [1, 2]
  })");
  EXPECT_NE(text.find("nest"), text.rfind("nest")) << text;
}

// Rows of 8 numbers, updated in place.
std::string in_place(const std::string& stage, const std::string& body) {
  return after(stage,
               "kernel k { symbol t in 17..* inout x: fp32[t, 8] in a: fp32[t, 8] "
               "out y: fp32[t, 8] loop (i < t) { " +
                   body + " } }");
}

TEST(Fold, ValuesThatATensorLosesAreCopiedFirst) {
  // x[j] = x[7 - j] would read what it has stored; x[j] = 2 x[j] does not.
  EXPECT_THAT(in_place("fold", R"(
    %0 = view x[i, 0] : fp32[1, 8]
    %1 = add %0, %0 : fp32[1, 8]
    assemble %1, x[i, 0])"),
              Not(HasSubstr("temp")));
  EXPECT_THAT(in_place("fold", R"(
    %0 = view x[i, 0] : fp32[1, 8]
    %1 = reshape %0 : fp32[4, 2]
    %2 = transpose %1 perm [1, 0] : fp32[2, 4]
    %3 = reshape %2 : fp32[1, 8]
    assemble %3, x[i, 0])"),
              HasSubstr("temp t3: fp32[1, 8]"));
}

TEST(Fold, WhatIsUsedLaterIsCopiedBeforeItIsOverwritten) {
  const std::string text = in_place("fold", R"(
    %0 = view x[i, 0] : fp32[1, 8]
    %1 = view a[i, 0] : fp32[1, 8]
    assemble %1, x[i, 0]
    assemble %0, y[i, 0])");
  EXPECT_THAT(text, HasSubstr("temp t0: fp32[1, 8]"));
  EXPECT_LT(text.find("load x["), text.find(", x["));
}

// The pass on a schedule, as others might leave it; statements of one iteration.
void schedule(const std::string& phases) {
  ir::Kernel kernel = ir::parse(
      "kernel k { symbol t in 17..* inout x: fp32[t, 8] in a: fp32[t, 8] "
      "out y: fp32[t, 8] " +
      phases + " }");
  passes::in_place(kernel);
}

TEST(InPlace, RefusesWhatMayRunTooLate) {
  const std::string tasks = "tasks (i < t) { ";
  const std::string reads = "nest (c < 8) { %0 = load x[i, c] : fp32 store %0, y[i, c] } ";
  const std::string writes = "nest (c < 8) { %1 = load a[i, c] : fp32 store %1, x[i, c] } ";
  EXPECT_NO_THROW(schedule("phase { " + tasks + reads + writes + "} }"));
  EXPECT_THROW(schedule("phase { " + tasks + writes + reads + "} }"), KernelError);
  EXPECT_NO_THROW(schedule("phase { " + tasks + reads + "} } phase { " + tasks + writes + "} }"));
  EXPECT_THROW(schedule("phase { " + tasks + writes + "} } phase { " + tasks + reads + "} }"),
               KernelError);
  // Side by side in one phase.
  EXPECT_THROW(schedule("phase { " + tasks + reads + "} " + tasks + writes + "} }"), KernelError);
}

TEST(InPlace, ElementsThatDoNotMeetMayComeInAnyOrder) {
  EXPECT_NO_THROW(schedule(R"(phase { tasks (i < t) {
    nest (c < 4) { %0 = load x[i, c] : fp32 store %0, x[i, c] }
    nest (c < 4) { %1 = load x[i, c + 4] : fp32 store %1, x[i, c + 4] } } })"));
  EXPECT_NO_THROW(schedule(R"(phase { tasks (i < t) {
    nest (c < 4) { %0 = load x[i, 2*c] : fp32 store %0, x[i, 2*c] }
    nest (c < 4) { %1 = load x[i, 2*c + 1] : fp32 store %1, x[i, 2*c + 1] } } })"));
  EXPECT_THROW(schedule(R"(phase { tasks (i < t) {
    nest (c < 5) { %0 = load x[i, c] : fp32 store %0, x[i, c] }
    nest (c < 4) { %1 = load x[i, c + 4] : fp32 store %1, y[i, c + 4] } } })"),
               KernelError);
}

TEST(InPlace, APointOverwritesWhatItHasReadItself) {
  EXPECT_THROW(schedule("phase { tasks (i < t) { nest (c < 8) { %0 = load x[i, -c + 7] : fp32 "
                        "store %0, x[i, c] } } }"),
               KernelError);
  // Its own element, but after the store.
  EXPECT_THROW(schedule("phase { tasks (i < t) { nest (c < 8) { %0 = load a[i, c] : fp32 "
                        "store %0, x[i, c] %1 = load x[i, c] : fp32 store %1, y[i, c] } } }"),
               KernelError);
}

TEST(InPlace, AProductsOperandIsNotWhatItsResultOverwrites) {
  EXPECT_THROW(schedule(R"(phase { tasks (i < t) {
    contract (m < 1, n < 8; k < 8) {
      %0 = load x[i + m, k] : fp32
      %1 = load a[n, k] : fp32
    } { nest (c < 8) { %2 = acc [0, c] : fp32 store %2, x[i, c] } } } })"),
               KernelError);
}

TEST(Phases, RowsOfAnOutputThatIsReadBackStayApart) {
  // z is y transposed: row 0 of z needs every row of y.
  const std::string text = after("phases", R"(kernel k {
    in x: fp32[8, 8]
    out y: fp32[8, 8]
    out z: fp32[8, 8]
    %0 = view x[0, 0] : fp32[8, 8]
    assemble %0, y[0, 0]
    %1 = view y[0, 0] : fp32[8, 8]
    %2 = transpose %1 perm [1, 0] : fp32[8, 8]
    assemble %2, z[0, 0]
  })");
  EXPECT_THAT(text, Not(HasSubstr("loop")));
}

TEST(Phases, ASumOverAMatmulsRowWaits) {
  const std::string text = after("phases", R"(kernel k {
    symbol t in 17..*
    in x: bf16[t, 64]
    in w: bf16 panels[96, 64]
    out y: fp32[t, 96]
    loop (i < t) {
      %0 = view x[i, 0] : bf16[1, 64]
      %1 = weight w : bf16[96, 64]
      %2 = matmul %0, %1 trans [0, 1] : fp32[1, 96]
      %3 = sum %2 axis [1] : fp32[1, 1]
      %4 = divide %2, %3 : fp32[1, 96]
      assemble %4, y[i, 0]
    }
  })");
  EXPECT_THAT(text, HasSubstr("scratch t2: fp32[t, 1, 96]"));
  EXPECT_THAT(text, HasSubstr("temp t3: fp32[1, 1]"));
  const std::size_t first = text.find("phase {");
  EXPECT_NE(text.find("phase {", first + 1), std::string::npos);
  EXPECT_EQ(text.find("phase {", text.find("phase {", first + 1) + 1), std::string::npos);
}

TEST(Phases, StatementsOfARowStayTogether) {
  const std::string text = after("phases", R"(kernel k {
    in x: fp32[4, 64]
    out y: fp32[4, 64]
    %0 = view x[0, 0] : fp32[4, 64]
    %1 = sum %0 axis [1] : fp32[4, 1]
    %2 = divide %0, %1 : fp32[4, 64]
    assemble %2, y[0, 0]
  })");
  EXPECT_THAT(text, HasSubstr("loop (r < 4)"));
  EXPECT_THAT(text, HasSubstr("accumulate_sum %3, t1[r, 0]"));
}

TEST(Parallel, ColumnsWhenRowsAreFew) {
  const std::string text = after("parallel", kSplit);
  EXPECT_THAT(text, HasSubstr("tasks (p < 3) chunk [1]"));
  EXPECT_THAT(text, HasSubstr("contract [32*p]"));
}

TEST(Parallel, PiecesOfAnUnrolledLoopShareTheirColumns) {
  const std::string text = after("parallel", R"(kernel k {
    symbol t in 3..4
    in x: bf16[t, 64]
    in w: bf16 panels[96, 64]
    out y: fp32[t, 96]
    unroll (row < t) by [2, 1] {
      %0 = view x[row, 0] : bf16[2, 64]
      %1 = weight w : bf16[96, 64]
      %2 = matmul %0, %1 trans [0, 1] : fp32[2, 96]
      assemble %2, y[row, 0]
    } {
      %3 = view x[row, 0] : bf16[1, 64]
      %4 = weight w : bf16[96, 64]
      %5 = matmul %3, %4 trans [0, 1] : fp32[1, 96]
      assemble %5, y[row, 0]
    }
  })");
  const std::size_t tasks = text.find("tasks (");
  EXPECT_NE(tasks, std::string::npos);
  EXPECT_EQ(text.find("tasks (", tasks + 1), std::string::npos) << text;
}

TEST(Parallel, RowsOfElementwiseWork) {
  const std::string text = after("parallel", R"(kernel k {
    symbol t in 17..*
    in x: fp32[t, 4096]
    out y: fp32[t, 4096]
    loop (i < t) {
      %0 = view x[i, 0] : fp32[1, 4096]
      %1 = exp %0 : fp32[1, 4096]
      assemble %1, y[i, 0]
    }
  })");
  EXPECT_THAT(text, HasSubstr("tasks (i < t) chunk [3]"));
}

TEST(Scratch, MemoryIsUsedAgainAfterItsLastReader) {
  const std::string text = after("scratch", R"(kernel k {
    in x: fp32[16, 16]
    out y: fp32[16, 16]
    local a: fp32[16, 16]
    local b: fp32[16, 16]
    local c: fp32[16, 16]
    %0 = view x[0, 0] : fp32[16, 16]
    assemble %0, a[0, 0]
    %1 = view a[0, 0] : fp32[16, 16]
    assemble %1, b[0, 0]
    %2 = view b[0, 0] : fp32[16, 16]
    assemble %2, c[0, 0]
    %3 = view c[0, 0] : fp32[16, 16]
    assemble %3, y[0, 0]
  })");
  EXPECT_THAT(text, HasSubstr("local a: fp32[16, 16] at 0\n"));
  EXPECT_THAT(text, HasSubstr("local b: fp32[16, 16] at 1024\n"));
  EXPECT_THAT(text, HasSubstr("local c: fp32[16, 16] at 0\n"));
}

}  // namespace
}  // namespace tessera::tile
