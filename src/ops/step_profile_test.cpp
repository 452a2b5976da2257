#include "ops/step_profile.h"

#include <chrono>

#include <gtest/gtest.h>

#include "ops/executor.h"

namespace tessera::ops {
namespace {

using Clock = StepProfile::Clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void spend(double seconds) {
  const auto start = Clock::now();
  while (since(start) < seconds) {
  }
}

TEST(StepProfile, EveryMomentBelongsToOnePart) {
  StepProfile profile(true);
  const auto start = Clock::now();
  profile.start();
  {
    const StepScope query(&profile, StepPart::kQuery);
    spend(0.002);
    {
      const StepScope norm(&profile, StepPart::kNorm);
      spend(0.003);
    }
    spend(0.001);
  }
  spend(0.001);
  profile.stop();
  const double all = since(start);
  EXPECT_GE(profile.time(StepPart::kQuery).seconds, 0.003);
  EXPECT_GE(profile.time(StepPart::kNorm).seconds, 0.003);
  EXPECT_GE(profile.time(StepPart::kOutside).seconds, 0.001);
  double sum = 0;
  for (std::size_t p = 0; p < kStepParts; ++p) {
    sum += profile.time(static_cast<StepPart>(p)).seconds;
  }
  EXPECT_LE(sum, all);
  EXPECT_EQ(profile.time(StepPart::kHead).seconds, 0);
}

TEST(StepProfile, ParallelRegionsAreToldByTheExecutor) {
  Executor executor(2, 0);
  StepProfile profile(true);
  executor.observe(&profile);
  profile.start();
  {
    const StepScope head(&profile, StepPart::kHead);
    executor.parallel_for(4, 1, [](std::int64_t, Worker&) { spend(0.001); });
    spend(0.002);
  }
  profile.stop();
  const StepProfile::Time& head = profile.time(StepPart::kHead);
  EXPECT_GE(head.in_regions, 0.001);
  EXPECT_GE(head.seconds, head.in_regions + 0.002);
}

TEST(StepProfile, WithoutTimesCountsExpertsAlone) {
  StepProfile profile(false);
  profile.start();
  {
    const StepScope head(&profile, StepPart::kHead);
    const RegionScope region(&profile);
    profile.count_experts(3);
    spend(0.001);
  }
  profile.count_experts(4);
  profile.stop();
  EXPECT_EQ(profile.experts(), 7);
  EXPECT_EQ(profile.time(StepPart::kHead).seconds, 0);
  EXPECT_EQ(profile.time(StepPart::kHead).in_regions, 0);
  profile.start();
  EXPECT_EQ(profile.experts(), 0);
}

}  // namespace
}  // namespace tessera::ops
