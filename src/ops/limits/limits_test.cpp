#include "tile/limits/limits.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "ops/limits/comparison.h"
#include "ops/limits/machine_limits.h"

namespace tessera::ops {
namespace {

using tile::cpu::PanelLayout;

// Pages between two that nobody may touch.
class FencedPages {
 public:
  static constexpr std::size_t kPage = 4096;

  FencedPages() {
    void* all = ::mmap(nullptr, 4 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::runtime_error("no memory");
    all_ = static_cast<std::byte*>(all);
    ::mprotect(all_ + kPage, 2 * kPage, PROT_READ);
  }
  ~FencedPages() { ::munmap(all_, 4 * kPage); }

  const std::byte* data() const { return all_ + kPage; }
  static constexpr std::int64_t size() { return 2 * kPage; }

 private:
  std::byte* all_;
};

// A read past either end would end the process.
TEST(Limits, ReadStaysInItsRange) {
  const tile::Limits limits;
  const FencedPages pages;
  const std::int64_t step = limits.read_step();
  ASSERT_GT(step, 0);
  ASSERT_EQ(pages.size() % step, 0);
  limits.read(pages.data(), 0, pages.size());
  limits.read(pages.data(), pages.size() - step, pages.size());
  limits.read(pages.data(), 0, step);
  limits.read(pages.data(), step, step);
}

TEST(Limits, OperationsAreProportionalToTurns) {
  const tile::Limits limits;
  for (Dot dot : tile::kDots) {
    limits.compute(dot, 0);
    limits.compute(dot, 3);
    EXPECT_GT(limits.operations(dot, 1), 0);
    EXPECT_EQ(limits.operations(dot, 10), 10 * limits.operations(dot, 1));
  }
  // Two operations a lane, and as many or more where smaller numbers have an instruction.
  EXPECT_GE(limits.operations(Dot::kBF16, 1), limits.operations(Dot::kF32, 1));
  EXPECT_GE(limits.operations(Dot::kI8, 1), limits.operations(Dot::kF32, 1));
}

TEST(Limits, LayoutsRunTheLoopOfTheirElements) {
  EXPECT_EQ(tile::dot_of(PanelLayout::kF32), Dot::kF32);
  EXPECT_EQ(tile::dot_of(PanelLayout::kF16), Dot::kF32);
  EXPECT_EQ(tile::dot_of(PanelLayout::kBF16), Dot::kBF16);
  EXPECT_EQ(tile::dot_of(PanelLayout::kI8), Dot::kI8);
  EXPECT_EQ(tile::dot_of(PanelLayout::kI4G32), Dot::kI8);
}

TEST(MachineLimits, AreNumbersForAnyNumberOfThreads) {
  for (int threads : {1, 2, 3}) {
    Executor executor(threads);
    MachineLimits limits(executor);
    for (int i = 0; i < 2; ++i) {
      const double read = limits.read();
      EXPECT_TRUE(std::isfinite(read) && read > 1e6) << read;
      for (Dot dot : tile::kDots) {
        const double peak = limits.dot(dot);
        EXPECT_TRUE(std::isfinite(peak) && peak > 1e6) << peak;
      }
    }
  }
}

TEST(Comparison, EveryOtherRoundIsInReverse) {
  Executor executor(1);
  MachineLimits limits(executor);
  std::string blocks;  // of calls to one candidate
  const auto candidate = [&](char name) {
    return Candidate{std::string(1, name),
                     [&blocks, name] {
                       if (blocks.empty() || blocks.back() != name) blocks += name;
                     },
                     4.0, 2.0, Dot::kF32};
  };
  const Comparison comparison = compare({candidate('a'), candidate('b')}, 1, 3, limits);
  EXPECT_EQ(blocks, "ababab");  // ab before the rounds, then ab ba ab
  ASSERT_EQ(comparison.candidates.size(), 2u);
  EXPECT_EQ(comparison.read_gb_per_second.samples().size(), 3u);
  for (const Compared& c : comparison.candidates) {
    ASSERT_EQ(c.seconds.samples().size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const double seconds = c.seconds.samples()[i];
      EXPECT_DOUBLE_EQ(c.gb_per_second.samples()[i], 4.0 / seconds / 1e9);
      EXPECT_DOUBLE_EQ(c.gflop_per_second.samples()[i], 2.0 / seconds / 1e9);
      EXPECT_DOUBLE_EQ(c.times_as_fast.samples()[i],
                       comparison.candidates[1].seconds.samples()[i] / seconds);
      // The slower of reading and computing is the limit.
      const double least = std::max(4.0 / (comparison.read_gb_per_second.samples()[i] * 1e9),
                                    2.0 / (comparison.dot_gflop_per_second.samples()[i] * 1e9));
      EXPECT_NEAR(c.share_of_limit.samples()[i], least / seconds, 1e-9 * least / seconds);
    }
  }
}

}  // namespace
}  // namespace tessera::ops
