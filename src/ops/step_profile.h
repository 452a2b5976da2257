// Where the time of a step of the forward pass goes, and which weights it reads: an observer that
// an Executor may carry. Without one, each place that would tell it something tests a pointer.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/thread_pool.h"

namespace tessera::ops {

enum class StepPart {
  kOutside,  // of all others: gathering jobs, positions, the lists of experts
  kEmbedding,
  kNorm,    // before attention, before the feed-forward network, before the head
  kQuery,   // projections of the query, and its rotation
  kProlog,  // projection of the latent, its norm and rotation, and writing it to the cache
  kAbsorb,  // from queries to the latent space and back to values, or keys and values from latents
  kAttention,
  kOutput,  // output projection
  kRouter,
  kDense,  // feed-forward networks of layers without experts
  kExpertsUp,
  kExpertsDown,
  kHead,
  kWaiting,  // of a replayed step: for other threads at a barrier
};
inline constexpr std::size_t kStepParts = static_cast<std::size_t>(StepPart::kWaiting) + 1;

std::string_view to_string(StepPart part);  // "experts up"

// Between start() and stop() every moment belongs to one part, so that the parts add up to the
// step. Used from the thread that runs the step alone.
class StepProfile {
 public:
  using Clock = std::chrono::steady_clock;

  struct Time {
    double seconds = 0;
    double in_regions = 0;  // of these, in parallel regions: kernels
  };

  // Without `times` only the experts are counted.
  // regions: also told of every region, as the first worker's; or nobody.
  explicit StepProfile(bool times, RegionObserver* regions = nullptr)
      : times_(times), regions_(regions) {}

  void start();  // forgets what was
  void stop();
  const Time& time(StepPart part) const { return parts_[static_cast<std::size_t>(part)]; }
  // Routed experts whose weights were read, summed over the layers.
  std::int64_t experts() const { return experts_; }

  // Told by the operators.
  StepPart enter(StepPart part);  // returns the part that this one interrupts
  void enter_region();
  void leave_region();
  void count_experts(std::int64_t n) { experts_ += n; }
  // So much of the time since the last enter() was a kernel of another part.
  void move_to(StepPart part, double seconds);

  bool measures_times() const { return times_; }
  StepPart part() const { return part_; }

 private:
  Time& current() { return parts_[static_cast<std::size_t>(part_)]; }

  bool times_;
  RegionObserver* regions_;
  StepPart part_ = StepPart::kOutside;
  Clock::time_point since_;
  Clock::time_point region_since_;
  std::array<Time, kStepParts> parts_ = {};
  std::int64_t experts_ = 0;
};

// The part that the enclosing block is; blocks within it interrupt it.
class StepScope {
 public:
  StepScope(StepProfile* profile, StepPart part) : profile_(profile) {
    if (profile_ != nullptr) outer_ = profile_->enter(part);
  }
  ~StepScope() {
    if (profile_ != nullptr) profile_->enter(outer_);
  }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  StepProfile* profile_;
  StepPart outer_ = StepPart::kOutside;
};

// A parallel region, or the call of a tile kernel.
class RegionScope {
 public:
  explicit RegionScope(StepProfile* profile) : profile_(profile) {
    if (profile_ != nullptr) profile_->enter_region();
  }
  ~RegionScope() {
    if (profile_ != nullptr) profile_->leave_region();
  }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  StepProfile* profile_;
};

}  // namespace tessera::ops
