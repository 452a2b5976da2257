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

class RmsNorm : public ::testing::TestWithParam<const RmsNormImplementation*> {
 protected:
  static void run(const ConstRows& x, const float* weight, float eps, const Rows& y,
                  Executor& executor) {
    GetParam()->run(x, weight, eps, y, executor);
  }
};

INSTANTIATE_TEST_SUITE_P(All, RmsNorm, ::testing::Values(&kRmsNormTile, &kRmsNormNative),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(RmsNorm, EqualsTheReferenceAtEveryTail) {
  std::mt19937 random(1);
  testing::AlwaysParallel executor(2);
  for (std::int64_t n : {1, 15, 16, 17, 33, 512, 2048}) {
    for (std::int64_t rows : {1, 3, 7, 8, 9}) {  // 8 rows of 2048 are where threads come in
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, n));
      PaddedRows x(rows, n);
      x.fill(random);
      const auto weight = random_vector(n, random);
      PaddedRows y(rows, n);
      PaddedRows expected(rows, n);
      run(x.rows(), weight.data(), 1e-6f, y.rows(), executor);
      rms_norm_reference(x.rows(), weight.data(), 1e-6f, expected.rows());
      EXPECT_TRUE(near(y.values(), expected.values(), 1e-5));
      EXPECT_TRUE(y.guards_intact());
    }
  }
}

TEST_P(RmsNorm, SameBitsForEveryThreadCount) {
  std::mt19937 random(2);
  PaddedRows x(33, 1023);
  x.fill(random);
  const auto weight = random_vector(1023, random);
  PaddedRows one(33, 1023);
  Executor single(1);
  run(x.rows(), weight.data(), 1e-6f, one.rows(), single);
  for (int threads : {2, 3}) {
    testing::AlwaysParallel executor(threads);
    PaddedRows many(33, 1023);
    run(x.rows(), weight.data(), 1e-6f, many.rows(), executor);
    EXPECT_TRUE(same_bits(many.values(), one.values())) << threads << " threads";
  }
}

// Fewer rows run without the threads, so the same row goes both ways.
TEST_P(RmsNorm, ARowDoesNotDependOnTheOthers) {
  std::mt19937 random(3);
  testing::AlwaysParallel executor(2);
  PaddedRows x(40, 1000);
  x.fill(random);
  const auto weight = random_vector(1000, random);
  PaddedRows all(40, 1000);
  run(x.rows(), weight.data(), 1e-6f, all.rows(), executor);
  PaddedRows alone(1, 1000);
  run(x.rows().rows_from(17, 1), weight.data(), 1e-6f, alone.rows(), executor);
  EXPECT_TRUE(same_bits(all.rows().row(17), alone.values()));
}

TEST_P(RmsNorm, MayRunInPlace) {
  std::mt19937 random(4);
  testing::AlwaysParallel executor(2);
  PaddedRows x(9, 33);
  x.fill(random);
  const auto weight = random_vector(33, random);
  PaddedRows y(9, 33);
  run(x.rows(), weight.data(), 1e-6f, y.rows(), executor);
  run(x.rows(), weight.data(), 1e-6f, x.rows(), executor);
  EXPECT_TRUE(same_bits(x.values(), y.values()));
}

// Columns of one matrix: as a latent and its rotated part lie beside each other.
TEST_P(RmsNorm, RowsBesideOthersInOneMatrix) {
  std::mt19937 random(5);
  testing::AlwaysParallel executor(3);
  for (std::int64_t rows : {1, 2, 9, 40}) {
    PaddedRows matrix(rows, 100);
    matrix.fill(random);
    const std::vector<float> before = matrix.values();
    const auto weight = random_vector(30, random);
    PaddedRows expected(rows, 30);
    const ConstRows x = matrix.rows().columns_from(20, 30);
    rms_norm_reference(x, weight.data(), 1e-6f, expected.rows());
    run(x, weight.data(), 1e-6f, matrix.rows().columns_from(50, 30), executor);
    run(x, weight.data(), 1e-6f, matrix.rows().columns_from(20, 30), executor);
    const std::vector<float> after = matrix.values();
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto part = [&](const std::vector<float>& values, std::int64_t begin, std::int64_t n) {
        return std::span(values).subspan(static_cast<std::size_t>(r * 100 + begin),
                                         static_cast<std::size_t>(n));
      };
      EXPECT_TRUE(near(part(after, 20, 30), expected.rows().row(r), 1e-5));
      EXPECT_TRUE(near(part(after, 50, 30), expected.rows().row(r), 1e-5));
      EXPECT_TRUE(same_bits(part(after, 0, 20), part(before, 0, 20)));
      EXPECT_TRUE(same_bits(part(after, 80, 20), part(before, 80, 20)));
    }
    EXPECT_TRUE(matrix.guards_intact());
  }
}

TEST_P(RmsNorm, KnownValues) {
  testing::AlwaysParallel executor(1);
  PaddedRows x(1, 2);
  x.fill(std::vector<float>{3, 4});  // mean square 12.5
  const std::vector<float> weight = {1, -2};
  PaddedRows y(1, 2);
  run(x.rows(), weight.data(), 0.0f, y.rows(), executor);
  EXPECT_TRUE(near(y.values(), std::vector<float>{0.8485281f, -2.2627417f}, 1e-6));
}

TEST_P(RmsNorm, EpsilonStandsUnderTheRoot) {
  testing::AlwaysParallel executor(1);
  PaddedRows x(1, 2);
  x.fill(std::vector<float>{1, 1});
  const std::vector<float> weight = {1, 1};
  PaddedRows y(1, 2);
  run(x.rows(), weight.data(), 3.0f, y.rows(), executor);
  EXPECT_EQ(y.values(), (std::vector<float>{0.5f, 0.5f}));
}

TEST_P(RmsNorm, ARowOfZerosStaysZero) {
  testing::AlwaysParallel executor(1);
  PaddedRows x(1, 20);
  x.fill(std::vector<float>(20, 0.0f));
  const std::vector<float> weight(20, 5.0f);
  PaddedRows y(1, 20);
  run(x.rows(), weight.data(), 1e-6f, y.rows(), executor);
  EXPECT_EQ(y.values(), std::vector<float>(20, 0.0f));
}

TEST_P(RmsNorm, NoRowsWriteNothing) {
  testing::AlwaysParallel executor(2);
  const std::vector<float> weight(4, 1.0f);
  PaddedRows x(0, 4);
  PaddedRows y(0, 4);
  run(x.rows(), weight.data(), 1e-6f, y.rows(), executor);
  EXPECT_TRUE(y.guards_intact());
}

TEST(Executor, LittleWorkStaysOnTheCallingThread) {
  Executor executor(3);
  EXPECT_EQ(executor.pool(Executor::kMinParallelWork - 1).size(), 1);
  EXPECT_EQ(&executor.pool(Executor::kMinParallelWork), &executor.pool());
  EXPECT_EQ(executor.pool().size(), 3);
}

}  // namespace
}  // namespace tessera::ops
