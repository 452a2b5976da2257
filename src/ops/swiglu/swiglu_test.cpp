#include "ops/swiglu/swiglu.h"

#include <fmt/format.h>

#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::near;
using testing::PaddedRows;
using testing::same_bits;

TEST(SwiGlu, EqualsTheReferenceAtEveryTail) {
  std::mt19937 random(1);
  Executor executor(2);
  for (std::int64_t n : {1, 15, 16, 17, 2047, 2048, 2049, 4097}) {  // blocks of 2048
    for (std::int64_t rows : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, n));
      PaddedRows gate_up(rows, 2 * n);
      gate_up.fill(random);
      PaddedRows y(rows, n);
      PaddedRows expected(rows, n);
      swiglu(gate_up.rows(), y.rows(), executor);
      swiglu_reference(gate_up.rows(), expected.rows());
      EXPECT_TRUE(near(y.values(), expected.values(), 1e-6));
      EXPECT_TRUE(y.guards_intact());
    }
  }
}

TEST(SwiGlu, SameBitsForEveryThreadCount) {
  std::mt19937 random(2);
  PaddedRows gate_up(3, 2 * 5000);
  gate_up.fill(random);
  PaddedRows one(3, 5000);
  Executor single(1);
  swiglu(gate_up.rows(), one.rows(), single);
  for (int threads : {2, 3}) {
    Executor executor(threads);
    PaddedRows many(3, 5000);
    swiglu(gate_up.rows(), many.rows(), executor);
    EXPECT_TRUE(same_bits(many.values(), one.values())) << threads << " threads";
  }
}

TEST(SwiGlu, MayOverwriteTheGateAndLeavesUpAlone) {
  std::mt19937 random(3);
  Executor executor(2);
  PaddedRows gate_up(2, 2 * 2049);
  gate_up.fill(random);
  const std::vector<float> before = gate_up.values();
  PaddedRows y(2, 2049);
  swiglu(gate_up.rows(), y.rows(), executor);
  swiglu(gate_up.rows(), gate_up.rows().columns_from(0, 2049), executor);
  for (std::int64_t r = 0; r < 2; ++r) {
    const auto row = gate_up.rows().row(r);
    EXPECT_TRUE(same_bits(row.first(2049), y.rows().row(r)));
    const auto up = std::span(before).subspan(static_cast<std::size_t>(r) * 2 * 2049 + 2049, 2049);
    EXPECT_TRUE(same_bits(row.last(2049), up));
  }
}

TEST(SwiGlu, KnownValues) {
  Executor executor(1);
  PaddedRows gate_up(2, 4);
  gate_up.fill(std::vector<float>{0, 1, 7, 2, -1, 1, 3, -0.5f});
  PaddedRows y(2, 2);
  swiglu(gate_up.rows(), y.rows(), executor);
  // silu(1) = 0.7310586, silu(-1) = -0.2689414
  EXPECT_TRUE(near(y.values(), std::vector<float>{0, 1.4621172f, -0.8068243f, -0.3655293f}, 1e-6));
}

TEST(SwiGlu, LargeGatesDoNotOverflow) {
  Executor executor(1);
  PaddedRows gate_up(1, 4);
  gate_up.fill(std::vector<float>{-1000, 1000, 3, 3});
  PaddedRows y(1, 2);
  swiglu(gate_up.rows(), y.rows(), executor);
  EXPECT_EQ(y.values(), (std::vector<float>{0, 3000}));
}

TEST(SwiGlu, NoRowsWriteNothing) {
  Executor executor(2);
  PaddedRows gate_up(0, 8);
  PaddedRows y(0, 4);
  swiglu(gate_up.rows(), y.rows(), executor);
  EXPECT_TRUE(y.guards_intact());
}

}  // namespace
}  // namespace tessera::ops
