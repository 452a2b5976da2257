#include "base/series.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Series of(std::initializer_list<double> samples) {
  Series series;
  for (double sample : samples) series.add(sample);
  return series;
}

TEST(Series, TheMedianIsInTheMiddleWhateverTheOrder) {
  EXPECT_EQ(of({7}).median(), 7);
  EXPECT_EQ(of({9, 1, 5}).median(), 5);
  EXPECT_EQ(of({4, 1, 100, 2}).median(), 3);
}

TEST(Series, KeepsTheOrderOfTheSamples) {
  const Series series = of({3, 1, 2});
  EXPECT_EQ(series.min(), 1);
  EXPECT_EQ(series.max(), 3);
  EXPECT_EQ(series.median(), 2);
  EXPECT_EQ(series.samples(), (std::vector<double>{3, 1, 2}));
}

}  // namespace
}  // namespace tessera
