#include "ops/linear/linear.h"

#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::AlwaysParallel;
using testing::near;
using testing::PaddedRows;
using testing::PaddedWeight;
using testing::same_bits;

// A sum of k products of values in [-1, 1], added in fp32; the rounding of the rows themselves is
// the reference's too.
double bound_for(std::int64_t k) {
  return 1e-6 * static_cast<double>(k + 2);
}

struct Shape {
  std::int64_t m, n, k;
};

// Around blocks of 6 and 13 rows, panels of 32 columns, units of 2, 4 and 32 inputs and vectors of
// 4, 8 and 16 lanes.
std::vector<Shape> tail_shapes() {
  std::vector<Shape> shapes;
  for (std::int64_t m : {1, 2, 3, 5, 6, 7, 12, 13, 14, 26, 27, 53}) shapes.push_back({m, 33, 35});
  for (std::int64_t n : {1, 3, 15, 16, 17, 31, 32, 63, 64, 65}) shapes.push_back({3, n, 33});
  for (std::int64_t k : {1, 2, 3, 4, 5, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300}) {
    shapes.push_back({3, 33, k});
  }
  for (const Shape& s : {Shape{1, 1, 1}, {1, 129, 1}, {40, 1, 1}, {29, 130, 67}}) {
    shapes.push_back(s);
  }
  return shapes;
}

// A layer with random weights of fp32, and its unpacked neighbours NaN.
struct Layer {
  Layer(PanelLayout layout, std::int64_t n, std::int64_t k, bool is_gate_up, std::mt19937& random,
        bool transposed = false)
      : executor(2), first(DType::kF32, n, k, transposed), second(DType::kF32, n, k, transposed) {
    first.fill(random);
    second.fill(random);
    packed = is_gate_up ? PackedLinear(first.view(), second.view(), layout, executor)
                        : PackedLinear(first.view(), layout, executor);
  }
  AlwaysParallel executor;
  PaddedWeight first;
  PaddedWeight second;
  PackedLinear packed;
};

class Linear : public ::testing::TestWithParam<std::tuple<PanelLayout, Epilogue>> {
 protected:
  PanelLayout layout() const { return std::get<0>(GetParam()); }
  Epilogue epilogue() const { return std::get<1>(GetParam()); }
  bool is_gate_up() const { return epilogue() == Epilogue::kSwiglu; }
};

std::vector<float> random_values(std::int64_t n, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = testing::random_value(random);
  return values;
}

TEST_P(Linear, EqualsTheReferenceAtEveryTail) {
  std::mt19937 random(1);
  AlwaysParallel executor(2);
  for (const auto& [m, n, k] : tail_shapes()) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", m, n, k));
    const Layer layer(layout(), n, k, is_gate_up(), random, m == 5);
    PaddedRows x(m, k);
    x.fill(random);
    PaddedRows y(m, n);
    PaddedRows expected(m, n);
    const std::vector<float> before = random_values(m * n, random);
    if (epilogue() == Epilogue::kAdd || epilogue() == Epilogue::kScaledAdd) {
      y.fill(before);
      expected.fill(before);
    }
    const std::vector<float> scale = random_values(m, random);
    LinearJob job{x.rows(), &layer.packed, y.rows(), epilogue(), {}, {}, scale};
    linear(std::span(&job, 1), executor);
    job.y = expected.rows();
    linear_reference(job, RoundActivations::kAsLayout);
    // Two factors of up to k each with SwiGLU.
    const double bound = bound_for(k) * (is_gate_up() ? 1 + static_cast<double>(k) / 4 : 1);
    EXPECT_TRUE(near(y.values(), expected.values(), bound));
    EXPECT_TRUE(y.guards_intact());
  }
}

TEST_P(Linear, SameBitsForEveryThreadCountAndCompany) {
  std::mt19937 random(2);
  constexpr std::int64_t kRows = 27;
  const Layer layer(layout(), 300, 161, is_gate_up(), random);
  PaddedRows x(kRows, 161);
  x.fill(random);
  const std::vector<float> before = random_values(kRows * 300, random);
  const std::vector<float> scale = random_values(kRows, random);
  const auto run = [&](std::int64_t first, std::int64_t rows, int threads) {
    PaddedRows y(kRows, 300);
    y.fill(before);
    AlwaysParallel executor(threads);
    LinearJob job{
        x.rows().rows_from(first, rows),
        &layer.packed,
        y.rows().rows_from(first, rows),
        epilogue(),
        {},
        {},
        std::span(scale).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows))};
    linear(std::span(&job, 1), executor);
    const std::vector<float> all = y.values();
    return std::vector<float>(all.begin() + first * 300, all.begin() + (first + rows) * 300);
  };
  const std::vector<float> whole = run(0, kRows, 1);
  for (int threads : {2, 3}) EXPECT_TRUE(same_bits(run(0, kRows, threads), whole)) << threads;
  for (std::int64_t rows = 1; rows < kRows; ++rows) {
    for (std::int64_t first : {std::int64_t{0}, kRows - rows}) {
      const std::vector<float> part = run(first, rows, 2);
      EXPECT_TRUE(same_bits(
          part, std::span(whole).subspan(static_cast<std::size_t>(first * 300), part.size())))
          << rows << " rows from " << first;
    }
  }
}

TEST_P(Linear, TakesAndWritesTheRowsOfItsLists) {
  std::mt19937 random(3);
  AlwaysParallel executor(2);
  const Layer layer(layout(), 70, 45, is_gate_up(), random);
  PaddedRows x(9, 45);
  x.fill(random);
  const std::vector<std::int32_t> x_rows{8, 0, 3, 3, 1};
  const std::vector<std::int32_t> y_rows{4, 6, 0, 2, 5};  // rows 1 and 3 stay as they are
  const std::vector<float> scale = random_values(5, random);
  const std::vector<float> before = random_values(7 * 70, random);
  PaddedRows y(7, 70);
  PaddedRows expected(7, 70);
  y.fill(before);
  expected.fill(before);
  LinearJob job{x.rows(), &layer.packed, y.rows(), epilogue(), x_rows, y_rows, scale};
  linear(std::span(&job, 1), executor);
  job.y = expected.rows();
  linear_reference(job, RoundActivations::kAsLayout);
  EXPECT_TRUE(near(y.values(), expected.values(), 12 * bound_for(45)));
  EXPECT_TRUE(y.guards_intact());
  for (std::int64_t row : {1, 3}) {
    EXPECT_TRUE(same_bits(y.rows().row(row),
                          std::span(before).subspan(static_cast<std::size_t>(row * 70), 70)));
  }
}

std::string_view name_of(Epilogue epilogue) {
  constexpr std::string_view kNames[] = {"store", "add", "scaled_add", "swiglu"};
  return kNames[static_cast<std::size_t>(epilogue)];
}

INSTANTIATE_TEST_SUITE_P(All, Linear,
                         ::testing::Combine(::testing::ValuesIn(tile::cpu::kPanelLayouts),
                                            ::testing::Values(Epilogue::kStore, Epilogue::kAdd,
                                                              Epilogue::kScaledAdd,
                                                              Epilogue::kSwiglu)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", to_string(std::get<0>(info.param)),
                                              name_of(std::get<1>(info.param)));
                         });

class LinearLayout : public ::testing::TestWithParam<PanelLayout> {};

INSTANTIATE_TEST_SUITE_P(All, LinearLayout, ::testing::ValuesIn(tile::cpu::kPanelLayouts),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// The experts of a layer: each adds to the tokens that chose it.
TEST_P(LinearLayout, JobsThatAddToOneOutputRunInTheirOrder) {
  std::mt19937 random(4);
  constexpr std::int64_t kTokens = 20;
  std::vector<std::unique_ptr<Layer>> experts;
  std::vector<std::vector<std::int32_t>> tokens(4);
  std::vector<std::vector<float>> scales;
  for (std::size_t e = 0; e < tokens.size(); ++e) {
    experts.push_back(std::make_unique<Layer>(GetParam(), 97, 64, false, random));
    for (std::int32_t t = 0; t < kTokens; ++t) {
      if (e == 0 || random() % 2 == 0) tokens[e].push_back(t);
    }
    scales.push_back(random_values(std::ssize(tokens[e]), random));
  }
  tokens[3].clear();  // chosen by none
  scales[3].clear();
  PaddedRows x(kTokens, 64);
  x.fill(random);
  const auto jobs_for = [&](const Rows& y) {
    std::vector<LinearJob> jobs;
    for (std::size_t e = 0; e < 3; ++e) {
      jobs.push_back({x.rows(), &experts[e]->packed, y, Epilogue::kScaledAdd, tokens[e], tokens[e],
                      scales[e]});
    }
    return jobs;
  };
  const std::vector<float> before = random_values(kTokens * 97, random);
  std::vector<float> one;
  for (int threads : {1, 2, 3}) {
    AlwaysParallel executor(threads);
    PaddedRows y(kTokens, 97);
    y.fill(before);
    linear(jobs_for(y.rows()), executor);
    if (threads == 1) one = y.values();
    EXPECT_TRUE(same_bits(y.values(), one)) << threads << " threads";
  }
  PaddedRows expected(kTokens, 97);
  expected.fill(before);
  for (const LinearJob& job : jobs_for(expected.rows())) {
    linear_reference(job, RoundActivations::kAsLayout);
  }
  EXPECT_TRUE(near(one, expected.values(), 4 * bound_for(64)));
}

TEST_P(LinearLayout, JobsDoNotDependOnEachOther) {
  std::mt19937 random(5);
  AlwaysParallel executor(3);
  const Layer a(GetParam(), 70, 96, false, random);
  const Layer b(GetParam(), 200, 96, false, random);
  const Layer c(GetParam(), 40, 33, false, random);
  PaddedRows shared(5, 96);
  shared.fill(random);
  PaddedRows other(29, 33);
  other.fill(random);
  PaddedRows none(0, 33);
  const std::vector<std::pair<ConstRows, const PackedLinear*>> inputs = {
      {shared.rows(), &a.packed},
      {shared.rows(), &b.packed},
      {none.rows(), &c.packed},
      {other.rows(), &c.packed},
      {shared.rows().rows_from(1, 3), &a.packed}};
  std::vector<std::unique_ptr<PaddedRows>> together;
  std::vector<LinearJob> jobs;
  for (const auto& [x, w] : inputs) {
    together.push_back(std::make_unique<PaddedRows>(x.rows, w->n()));
    jobs.push_back({x, w, together.back()->rows(), Epilogue::kStore, {}, {}, {}});
  }
  linear(jobs, executor);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PaddedRows alone(inputs[i].first.rows, inputs[i].second->n());
    linear(inputs[i].first, *inputs[i].second, alone.rows(), executor);
    EXPECT_TRUE(same_bits(together[i]->values(), alone.values())) << "job " << i;
    EXPECT_TRUE(together[i]->guards_intact()) << "job " << i;
  }
}

TEST_P(LinearLayout, ManyRowsOfLongInputsAgreeWithFew) {
  std::mt19937 random(6);
  AlwaysParallel executor(3);
  const Layer layer(GetParam(), 64, 2080, false, random);
  PaddedRows x(150, 2080);  // more prepared rows than a pass over the panels takes
  x.fill(random);
  PaddedRows y(150, 64);
  linear(x.rows(), layer.packed, y.rows(), executor);
  for (std::int64_t row : {0, 77, 149}) {
    PaddedRows alone(1, 64);
    linear(x.rows().rows_from(row, 1), layer.packed, alone.rows(), executor);
    EXPECT_TRUE(same_bits(alone.values(), y.rows().row(row))) << "row " << row;
  }
}

TEST_P(LinearLayout, PacksIntoMemoryThatIsGivenAndNoFurther) {
  std::mt19937 random(8);
  AlwaysParallel executor(2);
  const Layer layer(GetParam(), 40, 35, true, random);
  const std::size_t bytes = PackedLinear::packed_bytes(GetParam(), 40, 35, 2);
  ASSERT_EQ(layer.packed.bytes(), bytes);
  Buffer memory(bytes + 64);
  std::memset(memory.data(), 0x5a, memory.size());
  const PackedLinear placed(layer.first.view(), layer.second.view(), GetParam(), executor,
                            memory.data());
  EXPECT_EQ(placed.data(), memory.data());
  EXPECT_EQ(std::memcmp(memory.data(), layer.packed.data(), bytes), 0);
  for (std::size_t i = bytes; i < memory.size(); ++i) EXPECT_EQ(memory.data()[i], std::byte{0x5a});
}

TEST_P(LinearLayout, NoRowsWriteNothing) {
  std::mt19937 random(7);
  AlwaysParallel executor(2);
  const Layer layer(GetParam(), 33, 8, false, random);
  PaddedRows x(0, 8);
  PaddedRows y(0, 33);
  linear(x.rows(), layer.packed, y.rows(), executor);
  EXPECT_TRUE(y.guards_intact());
}

TEST(LinearSwiglu, LargeGatesDoNotOverflow) {
  AlwaysParallel executor(1);
  PaddedWeight gate(DType::kF32, 2, 1, false);
  gate.set(0, 0, -1000);
  gate.set(1, 0, 1000);
  PaddedWeight up(DType::kF32, 2, 1, false);
  up.set(0, 0, 3);
  up.set(1, 0, 3);
  const PackedLinear layer(gate.view(), up.view(), PanelLayout::kF32, executor);
  PaddedRows x(1, 1);
  x.fill(std::vector<float>{1});
  PaddedRows y(1, 2);
  linear(x.rows(), layer, y.rows(), executor, Epilogue::kSwiglu);
  EXPECT_EQ(y.values(), (std::vector<float>{0, 3000}));
}

TEST(LinearBf16, RoundsTheActivations) {
  AlwaysParallel executor(1);
  PaddedWeight w(DType::kBF16, 1, 1, false);
  w.set(0, 0, 1.0f);
  const PackedLinear layer(w.view(), PanelLayout::kBF16, executor);
  PaddedRows x(1, 1);
  x.fill(std::vector<float>{1.001953125f});  // 1 + 2^-9: between two bf16 numbers, nearer to 1
  PaddedRows y(1, 1);
  linear(x.rows(), layer, y.rows(), executor);
  EXPECT_EQ(y.values().front(), 1.0f);
}

}  // namespace
}  // namespace tessera::ops
