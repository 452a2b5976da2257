#include "ops/rms_norm/rms_norm.h"

#include <fmt/format.h>

#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::near;
using testing::PaddedRows;
using testing::same_bits;

std::vector<float> random_vector(std::int64_t n, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = testing::random_value(random);
  return values;
}

TEST(RmsNorm, EqualsTheReferenceAtEveryTail) {
  std::mt19937 random(1);
  Executor executor(2);
  for (std::int64_t n : {1, 15, 16, 17, 33, 512, 2048}) {
    for (std::int64_t rows : {1, 3, 7, 8, 9}) {  // 8 rows of 2048 are where threads come in
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, n));
      PaddedRows x(rows, n);
      x.fill(random);
      const auto weight = random_vector(n, random);
      PaddedRows y(rows, n);
      PaddedRows expected(rows, n);
      rms_norm(x.rows(), weight.data(), 1e-6f, y.rows(), executor);
      rms_norm_reference(x.rows(), weight.data(), 1e-6f, expected.rows());
      EXPECT_TRUE(near(y.values(), expected.values(), 1e-5));
      EXPECT_TRUE(y.guards_intact());
    }
  }
}

TEST(RmsNorm, SameBitsForEveryThreadCount) {
  std::mt19937 random(2);
  PaddedRows x(33, 1023);
  x.fill(random);
  const auto weight = random_vector(1023, random);
  PaddedRows one(33, 1023);
  Executor single(1);
  rms_norm(x.rows(), weight.data(), 1e-6f, one.rows(), single);
  for (int threads : {2, 3}) {
    Executor executor(threads);
    PaddedRows many(33, 1023);
    rms_norm(x.rows(), weight.data(), 1e-6f, many.rows(), executor);
    EXPECT_TRUE(same_bits(many.values(), one.values())) << threads << " threads";
  }
}

// Fewer rows run without the threads, so the same row goes both ways.
TEST(RmsNorm, ARowDoesNotDependOnTheOthers) {
  std::mt19937 random(3);
  Executor executor(2);
  PaddedRows x(40, 1000);
  x.fill(random);
  const auto weight = random_vector(1000, random);
  PaddedRows all(40, 1000);
  rms_norm(x.rows(), weight.data(), 1e-6f, all.rows(), executor);
  PaddedRows alone(1, 1000);
  rms_norm(x.rows().rows_from(17, 1), weight.data(), 1e-6f, alone.rows(), executor);
  EXPECT_TRUE(same_bits(all.rows().row(17), alone.values()));
}

TEST(RmsNorm, MayRunInPlace) {
  std::mt19937 random(4);
  Executor executor(2);
  PaddedRows x(9, 33);
  x.fill(random);
  const auto weight = random_vector(33, random);
  PaddedRows y(9, 33);
  rms_norm(x.rows(), weight.data(), 1e-6f, y.rows(), executor);
  rms_norm(x.rows(), weight.data(), 1e-6f, x.rows(), executor);
  EXPECT_TRUE(same_bits(x.values(), y.values()));
}

TEST(RmsNorm, KnownValues) {
  Executor executor(1);
  PaddedRows x(1, 2);
  x.fill(std::vector<float>{3, 4});  // mean square 12.5
  const std::vector<float> weight = {1, -2};
  PaddedRows y(1, 2);
  rms_norm(x.rows(), weight.data(), 0.0f, y.rows(), executor);
  EXPECT_TRUE(near(y.values(), std::vector<float>{0.8485281f, -2.2627417f}, 1e-6));
}

TEST(RmsNorm, EpsilonStandsUnderTheRoot) {
  Executor executor(1);
  PaddedRows x(1, 2);
  x.fill(std::vector<float>{1, 1});
  const std::vector<float> weight = {1, 1};
  PaddedRows y(1, 2);
  rms_norm(x.rows(), weight.data(), 3.0f, y.rows(), executor);
  EXPECT_EQ(y.values(), (std::vector<float>{0.5f, 0.5f}));
}

TEST(RmsNorm, ARowOfZerosStaysZero) {
  Executor executor(1);
  PaddedRows x(1, 20);
  x.fill(std::vector<float>(20, 0.0f));
  const std::vector<float> weight(20, 5.0f);
  PaddedRows y(1, 20);
  rms_norm(x.rows(), weight.data(), 1e-6f, y.rows(), executor);
  EXPECT_EQ(y.values(), std::vector<float>(20, 0.0f));
}

TEST(RmsNorm, NoRowsWriteNothing) {
  Executor executor(2);
  const std::vector<float> weight(4, 1.0f);
  PaddedRows x(0, 4);
  PaddedRows y(0, 4);
  rms_norm(x.rows(), weight.data(), 1e-6f, y.rows(), executor);
  EXPECT_TRUE(y.guards_intact());
}

}  // namespace
}  // namespace tessera::ops
