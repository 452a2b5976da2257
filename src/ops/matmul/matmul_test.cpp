#include "ops/matmul/matmul.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "ops/matmul/primitive_cache.h"
#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::near;
using testing::PaddedRows;
using testing::PaddedWeight;
using testing::same_bits;

struct Shape {
  std::int64_t m, n, k;
};

// Around the panel of 256 columns, the block of 128 rows and vectors of 16 lanes.
std::vector<Shape> tail_shapes() {
  std::vector<Shape> shapes;
  for (std::int64_t m : {1, 2, 127, 128, 129, 257}) shapes.push_back({m, 17, 33});
  for (std::int64_t n : {1, 15, 16, 31, 255, 256, 257, 513}) shapes.push_back({3, n, 33});
  for (std::int64_t k : {1, 2, 15, 16, 17, 32, 300}) shapes.push_back({3, 17, k});
  for (const Shape& s : {Shape{1, 1, 1}, {1, 257, 1}, {129, 1, 1}, {129, 257, 17}}) {
    shapes.push_back(s);
  }
  return shapes;
}

// A sum of k products of values in [-1, 1], added in fp32.
double bound_for(std::int64_t k) {
  return 1e-6 * static_cast<double>(k);
}

class Matmul : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  bool transposed() const { return std::get<1>(GetParam()); }
};

TEST_P(Matmul, EqualsTheReferenceAtEveryTail) {
  std::mt19937 random(1);
  Executor executor(2);
  for (const auto& [m, n, k] : tail_shapes()) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", m, n, k));
    PaddedRows x(m, k);
    x.fill(random);
    PaddedWeight w(dtype(), n, k, transposed());
    w.fill(random);
    PaddedRows y(m, n);
    PaddedRows expected(m, n);
    matmul(x.rows(), w.view(), y.rows(), executor);
    matmul_reference(x.rows(), w.view(), expected.rows());
    EXPECT_TRUE(near(y.values(), expected.values(), bound_for(k)));
    EXPECT_TRUE(y.guards_intact());
  }
}

TEST_P(Matmul, SameBitsForEveryThreadCount) {
  std::mt19937 random(2);
  PaddedRows x(257, 65);
  x.fill(random);
  PaddedWeight w(dtype(), 513, 65, transposed());
  w.fill(random);
  PaddedRows one(257, 513);
  Executor single(1);
  matmul(x.rows(), w.view(), one.rows(), single);
  for (int threads : {2, 3}) {
    Executor executor(threads);
    PaddedRows many(257, 513);
    matmul(x.rows(), w.view(), many.rows(), executor);
    EXPECT_TRUE(same_bits(many.values(), one.values())) << threads << " threads";
  }
}

TEST_P(Matmul, AJobDoesNotDependOnTheOthers) {
  std::mt19937 random(3);
  Executor executor(3);
  PaddedRows shared(5, 33);
  shared.fill(random);
  PaddedRows other(130, 33);
  other.fill(random);
  PaddedRows none(0, 33);
  PaddedWeight w(dtype(), 40, 33, transposed());
  w.fill(random);
  PaddedWeight w2(dtype(), 257, 33, transposed());
  w2.fill(random);

  // Jobs that share x side by side and apart, jobs on part of the same rows, and one without rows.
  const std::vector<std::pair<ConstRows, WeightView>> inputs = {
      {shared.rows(), w.view()}, {shared.rows(), w2.view()},
      {other.rows(), w.view()},  {none.rows(), w.view()},
      {shared.rows(), w.view()}, {shared.rows().rows_from(0, 3), w2.view()},
      {other.rows(), w2.view()}, {other.rows().rows_from(100, 30), w.view()}};
  std::vector<std::unique_ptr<PaddedRows>> together;
  std::vector<MatmulJob> jobs;
  for (const auto& [x, weight] : inputs) {
    together.push_back(std::make_unique<PaddedRows>(x.rows, weight.n));
    jobs.push_back({x, weight, together.back()->rows()});
  }
  matmul(jobs, executor);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PaddedRows alone(inputs[i].first.rows, inputs[i].second.n);
    matmul(inputs[i].first, inputs[i].second, alone.rows(), executor);
    EXPECT_TRUE(same_bits(together[i]->values(), alone.values())) << "job " << i;
    EXPECT_TRUE(together[i]->guards_intact()) << "job " << i;
  }
}

// One start and one size, but other rows.
TEST_P(Matmul, JobsOnTheSameDataWithOtherStridesAreKeptApart) {
  std::mt19937 random(4);
  Executor executor(1);
  PaddedRows memory(6, 16, 0);
  memory.fill(random);
  const ConstRows every(memory.rows().data, 3, 16, 16);
  const ConstRows every_second(memory.rows().data, 3, 16, 32);
  PaddedWeight w(dtype(), 4, 16, transposed());
  w.fill(random);
  PaddedRows a(3, 4);
  PaddedRows b(3, 4);
  const std::vector<MatmulJob> jobs = {{every, w.view(), a.rows()},
                                       {every_second, w.view(), b.rows()}};
  matmul(jobs, executor);
  PaddedRows expected(3, 4);
  matmul_reference(every_second, w.view(), expected.rows());
  EXPECT_TRUE(near(b.values(), expected.values(), bound_for(16)));
}

TEST_P(Matmul, ReadsNothingBeyondAPanelOfOutputs) {
  std::mt19937 random(5);
  Executor executor(1);
  PaddedRows x(2, 9);
  x.fill(random);
  PaddedWeight w(dtype(), 30, 9, transposed());  // NaN outside rows 10 to 16
  for (std::int64_t i = 10; i < 17; ++i) {
    for (std::int64_t j = 0; j < 9; ++j) w.set(i, j, testing::random_value(random));
  }
  PaddedRows y(2, 7);
  PaddedRows expected(2, 7);
  matmul(x.rows(), w.view().outputs(10, 7), y.rows(), executor);
  matmul_reference(x.rows(), w.view().outputs(10, 7), expected.rows());
  EXPECT_TRUE(near(y.values(), expected.values(), bound_for(9)));
}

TEST_P(Matmul, KnownProduct) {
  Executor executor(1);
  PaddedWeight w(dtype(), 2, 3, transposed());
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) w.set(i, j, static_cast<float>(3 * i + j + 1));
  }
  PaddedRows x(2, 3);
  x.fill(std::vector<float>{1, 0, -1, 2, 4, 8});
  PaddedRows y(2, 2);
  matmul(x.rows(), w.view(), y.rows(), executor);
  EXPECT_EQ(y.values(), (std::vector<float>{-2, -2, 34, 76}));
}

INSTANTIATE_TEST_SUITE_P(All, Matmul,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBF16,
                                                              DType::kF16),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(to_string(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_transposed" : "");
                         });

TEST(MatmulBf16, RoundsTheActivations) {
  Executor executor(1);
  PaddedWeight w(DType::kBF16, 1, 1, false);
  w.set(0, 0, 1.0f);
  PaddedRows x(1, 1);
  x.fill(std::vector<float>{1.001953125f});  // 1 + 2^-9: between two bf16 numbers, nearer to 1
  PaddedRows y(1, 1);
  matmul(x.rows(), w.view(), y.rows(), executor);
  EXPECT_EQ(y.values().front(), 1.0f);
}

TEST(MatmulFp16, KeepsTheActivationsInFp32) {
  Executor executor(1);
  PaddedWeight w(DType::kF16, 1, 1, false);
  w.set(0, 0, 1.0f);
  PaddedRows x(1, 1);
  x.fill(std::vector<float>{1.0000001f});
  PaddedRows y(1, 1);
  matmul(x.rows(), w.view(), y.rows(), executor);
  EXPECT_EQ(y.values().front(), 1.0000001f);
}

TEST(MatmulEmpty, NoJobsAreNoWork) {
  Executor executor(2);
  EXPECT_NO_THROW(matmul(std::span<const MatmulJob>(), executor));
}

// tests/ops runs this program a second time with oneDNN held to AVX2, where bf16 has to be widened.
TEST(MatmulBf16, IsWidenedWhereOneDnnIsHeldToAvx2) {
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (isa == nullptr || std::string_view(isa) != "AVX2") GTEST_SKIP() << "runs with AVX2 only";
  EXPECT_FALSE(MatmulCache::has_bf16());
}

}  // namespace
}  // namespace tessera::ops
