#include "ops/moe/moe.h"

#include <string>

#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::near;
using testing::PaddedRows;
using testing::random_weight;
using testing::same_bits;

FeedForward packed(const Weight& gate, const Weight& up, const Weight& down, PanelLayout layout) {
  testing::AlwaysParallel executor(2);
  return {PackedLinear(gate.view(), up.view(), layout, executor),
          PackedLinear(down.view(), layout, executor)};
}

FeedForward random_network(PanelLayout layout, std::int64_t hidden, std::int64_t n,
                           std::mt19937& random) {
  const auto weight = [&](std::int64_t rows, std::int64_t columns) {
    return random_weight(DType::kF32, rows, columns, random);
  };
  return packed(weight(n, hidden), weight(n, hidden), weight(hidden, n), layout);
}

// NaN, where the layout has one: whatever reads it shows.
FeedForward poisoned_network(PanelLayout layout, std::int64_t hidden, std::int64_t n) {
  const auto weight = [&](std::int64_t rows, std::int64_t columns) {
    Weight poison(DType::kF32, rows, columns);
    std::memset(poison.row(0), 0xff, poison.bytes());
    return poison;
  };
  return packed(weight(n, hidden), weight(n, hidden), weight(hidden, n), layout);
}

// y = weight * up * silu(gate) with one hidden value and one inner value.
FeedForward scalar_network(float gate, float up, float down) {
  const auto weight = [](float value) {
    Weight one(DType::kF32, 1, 1);
    std::memcpy(one.row(0), &value, sizeof value);
    return one;
  };
  return packed(weight(gate), weight(up), weight(down), PanelLayout::kF32);
}

class Moe : public ::testing::TestWithParam<PanelLayout> {
 protected:
  static constexpr std::int64_t kHidden = 33;
  static constexpr std::int64_t kInner = 17;
  static constexpr int kExperts = 6;

  // Every token goes to two of the experts 0, 1, 3 and 5.
  std::vector<std::int32_t> choices(std::int64_t rows) {
    constexpr std::int32_t kUsed[] = {5, 0, 3, 1};
    std::vector<std::int32_t> chosen;
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto first = random_() % 4;
      chosen.push_back(kUsed[first]);
      chosen.push_back(kUsed[(first + 1 + random_() % 3) % 4]);
    }
    return chosen;
  }

  std::vector<float> random_floats(std::size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = testing::random_value(random_);
    return values;
  }

  std::vector<FeedForward> experts() {
    std::vector<FeedForward> all;
    for (int e = 0; e < kExperts; ++e) {
      const bool used = e == 0 || e == 1 || e == 3 || e == 5;
      all.push_back(used ? random_network(GetParam(), kHidden, kInner, random_)
                         : poisoned_network(GetParam(), kHidden, kInner));
    }
    return all;
  }

  // The inner values are rounded, which may fall on either side of a tie.
  double bound() const {
    const bool rounds = GetParam() != PanelLayout::kF32 && GetParam() != PanelLayout::kF16;
    return rounds ? 0.2 : 1e-4;
  }

  std::mt19937 random_{1};
  FeedForward shared_ = random_network(GetParam(), kHidden, 2 * kInner, random_);
};

TEST_P(Moe, EqualsTheReferenceAndReadsOnlyChosenExperts) {
  testing::AlwaysParallel executor(2);
  const auto all = experts();
  for (std::int64_t rows : {1, 2, 127, 257}) {
    PaddedRows x(rows, kHidden);
    x.fill(random_);
    const auto chosen = choices(rows);
    const auto weights = random_floats(chosen.size());
    const auto before = random_floats(static_cast<std::size_t>(rows * kHidden));
    PaddedRows y(rows, kHidden);
    PaddedRows expected(rows, kHidden);
    y.fill(before);
    expected.fill(before);
    moe(x.rows(), all, shared_, chosen, weights, y.rows(), executor);
    moe_reference(x.rows(), all, shared_, chosen, weights, expected.rows(),
                  RoundActivations::kAsLayout);
    EXPECT_TRUE(near(y.values(), expected.values(), bound())) << rows << " rows";
    EXPECT_TRUE(y.guards_intact());
  }
}

TEST_P(Moe, SameBitsForEveryThreadCount) {
  const auto all = experts();
  PaddedRows x(50, kHidden);
  x.fill(random_);
  const auto chosen = choices(50);
  const auto weights = random_floats(chosen.size());
  std::vector<float> one;
  for (int threads : {1, 2, 3}) {
    testing::AlwaysParallel executor(threads);
    PaddedRows y(50, kHidden);
    y.fill(std::vector<float>(50 * kHidden, 0.0f));
    moe(x.rows(), all, {}, chosen, weights, y.rows(), executor);
    if (threads == 1) one = y.values();
    EXPECT_TRUE(same_bits(y.values(), one)) << threads << " threads";
  }
}

TEST_P(Moe, TheOrderOfTheChoicesDoesNotMatter) {
  testing::AlwaysParallel executor(1);
  const auto all = experts();
  PaddedRows x(1, kHidden);
  x.fill(random_);
  PaddedRows a(1, kHidden);
  PaddedRows b(1, kHidden);
  a.fill(std::vector<float>(kHidden, 0.0f));
  b.fill(std::vector<float>(kHidden, 0.0f));
  const std::vector<std::int32_t> rising = {0, 3, 5};
  const std::vector<std::int32_t> mixed = {5, 0, 3};
  moe(x.rows(), all, {}, rising, std::vector<float>{0.5f, 0.3f, 0.2f}, a.rows(), executor);
  moe(x.rows(), all, {}, mixed, std::vector<float>{0.2f, 0.5f, 0.3f}, b.rows(), executor);
  EXPECT_TRUE(same_bits(a.values(), b.values()));
}

TEST_P(Moe, FeedForwardEqualsTheReference) {
  testing::AlwaysParallel executor(2);
  const FeedForward network = random_network(GetParam(), kHidden, kInner, random_);
  for (std::int64_t rows : {1, 129}) {
    PaddedRows x(rows, kHidden);
    x.fill(random_);
    const auto before = random_floats(static_cast<std::size_t>(rows * kHidden));
    PaddedRows y(rows, kHidden);
    PaddedRows expected(rows, kHidden);
    y.fill(before);
    expected.fill(before);
    feed_forward(x.rows(), network, y.rows(), executor);
    feed_forward_reference(x.rows(), network, expected.rows(), RoundActivations::kAsLayout);
    EXPECT_TRUE(near(y.values(), expected.values(), bound())) << rows << " rows";
    EXPECT_TRUE(y.guards_intact());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Moe,
                         ::testing::Values(PanelLayout::kF32, PanelLayout::kBF16, PanelLayout::kF16,
                                           PanelLayout::kI8, PanelLayout::kI8G32,
                                           PanelLayout::kI6G32, PanelLayout::kI4G32),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(MoeKnown, AddsTheWeightedExpertsToWhatIsThere) {
  testing::AlwaysParallel executor(1);
  std::vector<FeedForward> experts;
  experts.push_back(scalar_network(1, 1, 1));   // silu(x) x
  experts.push_back(scalar_network(1, 10, 1));  // ten times that
  PaddedRows x(2, 1);
  x.fill(std::vector<float>{1, -1});
  PaddedRows y(2, 1);
  y.fill(std::vector<float>{100, 200});
  const std::vector<std::int32_t> chosen = {1, 0, 0, 1};
  const std::vector<float> weights = {0.5f, 2.0f, 1.0f, 0.25f};
  moe(x.rows(), experts, {}, chosen, weights, y.rows(), executor);
  // silu(1) = 0.7310586; silu(-1) * -1 = 0.2689414
  EXPECT_TRUE(
      near(y.values(), std::vector<float>{100 + 7 * 0.7310586f, 200 + 3.5f * 0.2689414f}, 1e-4));
}

TEST(MoeKnown, NoRowsWriteNothing) {
  testing::AlwaysParallel executor(2);
  std::vector<FeedForward> experts;
  experts.push_back(poisoned_network(PanelLayout::kF32, 4, 2));
  PaddedRows x(0, 4);
  PaddedRows y(0, 4);
  moe(x.rows(), experts, {}, {}, {}, y.rows(), executor);
  moe_reference(x.rows(), experts, {}, {}, {}, y.rows(), RoundActivations::kAsLayout);
  feed_forward(x.rows(), experts.front(), y.rows(), executor);
  EXPECT_TRUE(y.guards_intact());
}

}  // namespace
}  // namespace tessera::ops
