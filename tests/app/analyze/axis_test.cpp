#include "app/analyze/chart/axis.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::app::analyze {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> texts(const AxisTicks& ticks) {
  std::vector<std::string> texts;
  for (const AxisTicks::Tick& tick : ticks.ticks()) texts.push_back(tick.text);
  return texts;
}

std::vector<std::string> texts(Scale scale, const Quantity& quantity, double low, double high,
                               int most) {
  return texts(AxisTicks({"", quantity, scale}, low, high, most));
}

TEST(AxisTicks, LinearOnesAreRound) {
  EXPECT_THAT(texts(Scale::kLinear, kCount, 0, 428, 7),
              ElementsAre("0", "100", "200", "300", "400", "500"));
  EXPECT_THAT(texts(Scale::kLinear, kCount, 0, 0.0031, 7),
              ElementsAre("0.000", "0.001", "0.002", "0.003", "0.004"));
  EXPECT_THAT(texts(Scale::kLinear, kCount, 0.905, 1, 7),
              ElementsAre("0.90", "0.92", "0.94", "0.96", "0.98", "1.00"));
  EXPECT_THAT(texts(Scale::kLinear, kCount, 0, 10, 3), ElementsAre("0", "5", "10"));
  EXPECT_THAT(texts(Scale::kLinear, kCount, -3, 12, 5), ElementsAre("-5", "0", "5", "10", "15"));
}

TEST(AxisTicks, AreRoundInTheUnitThatIsShown) {
  EXPECT_THAT(texts(Scale::kLinear, kPercent, 0, 1.13, 7),
              ElementsAre("0", "20", "40", "60", "80", "100", "120"));
  const AxisTicks ticks({"", kMilliseconds}, 0, 0.0147, 7);
  EXPECT_THAT(texts(ticks), ElementsAre("0", "5", "10", "15"));
  EXPECT_DOUBLE_EQ(ticks.ticks()[1].value, 0.005);
  EXPECT_DOUBLE_EQ(ticks.position(0.0075), 0.5);
}

TEST(AxisTicks, OneValueHasAnAxisToo) {
  EXPECT_THAT(texts(Scale::kLinear, kCount, 0, 0, 7),
              ElementsAre("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_GE(texts(Scale::kLinear, kCount, 7, 7, 7).size(), 2u);
  EXPECT_THAT(texts(Scale::kLog2, kCount, 8, 8, 7), ElementsAre("4", "8", "16"));
  EXPECT_THAT(texts(Scale::kLog10, kCount, 10, 10, 7), ElementsAre("5", "10", "20"));
}

TEST(AxisTicks, LogarithmicOnes) {
  EXPECT_THAT(texts(Scale::kLog2, kCount, 1, 512, 12),
              ElementsAre("1", "2", "4", "8", "16", "32", "64", "128", "256", "512"));
  EXPECT_THAT(texts(Scale::kLog2, kCount, 1, 512, 5), ElementsAre("1", "4", "16", "64", "256"));
  EXPECT_THAT(texts(Scale::kLog2, kCount, 3, 70, 9), ElementsAre("4", "8", "16", "32", "64"));
  EXPECT_THAT(texts(Scale::kLog2, kCount, 5, 7, 9), ElementsAre("5", "7"));
  EXPECT_THAT(texts(Scale::kLog10, kMicroseconds, 7.6e-5, 0.0118, 10),
              ElementsAre("50", "100", "200", "500", "1000", "2000", "5000", "10000", "20000"));
  EXPECT_THAT(texts(Scale::kLog10, kCount, 0.03, 2000, 7),
              ElementsAre("0.1", "1", "10", "100", "1000"));
}

// What every axis must be, whatever the data.
void expect_sound(const AxisTicks& ticks, double low, double high, int most) {
  const std::string data = "from " + std::to_string(low) + " to " + std::to_string(high);
  ASSERT_GE(ticks.ticks().size(), 1u) << data;
  EXPECT_LE(static_cast<int>(ticks.ticks().size()), most) << data;
  EXPECT_GE(ticks.position(low), -1e-9) << data;
  EXPECT_LE(ticks.position(high), 1 + 1e-9) << data;
  EXPECT_LE(ticks.position(low), ticks.position(high)) << data;
  double before = -1e-6;
  for (const AxisTicks::Tick& tick : ticks.ticks()) {
    EXPECT_GE(ticks.position(tick.value), before) << data;
    before = ticks.position(tick.value) + 1e-6;  // no two in one place
    // What is written there is the value itself.
    EXPECT_NEAR(std::stod(tick.text), tick.value, 1e-9 * std::abs(tick.value)) << data;
  }
  EXPECT_LE(before, 1 + 2e-6) << data;
}

TEST(AxisTicks, EncloseAnyData) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-6, 12);
  for (int i = 0; i < 2000; ++i) {
    const double a = std::pow(10, exponent(random));
    const double b = std::pow(10, exponent(random));
    for (const int most : {2, 3, 5, 7, 12}) {
      const double low = std::min(a, b);
      const double high = std::max(a, b);
      const AxisTicks linear({"", kCount}, 0, high, most);
      expect_sound(linear, 0, high, most);
      EXPECT_GE(linear.ticks().size(), 2u);
      // Numbers that lie close together, as ratios do.
      expect_sound(AxisTicks({"", kCount}, high, high * 1.01, most), high, high * 1.01, most);
      expect_sound(AxisTicks({"", kCount, Scale::kLog10}, low, high, most), low, high, most);
      const double count = std::floor(low) + 1;
      const double more = std::floor(high) + 1;
      expect_sound(AxisTicks({"", kCount, Scale::kLog2}, count, more, most), count, more, most);
    }
  }
}

}  // namespace
}  // namespace tessera::app::analyze
