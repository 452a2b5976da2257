#include "ops/step_profile.h"

namespace tessera::ops {

namespace {

double between(StepProfile::Clock::time_point start, StepProfile::Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

}  // namespace

std::string_view to_string(StepPart part) {
  switch (part) {
    case StepPart::kOutside:
      return "outside";
    case StepPart::kEmbedding:
      return "embedding";
    case StepPart::kNorm:
      return "norms";
    case StepPart::kQuery:
      return "query";
    case StepPart::kProlog:
      return "prolog";
    case StepPart::kAbsorb:
      return "absorb";
    case StepPart::kAttention:
      return "attention";
    case StepPart::kOutput:
      return "output";
    case StepPart::kRouter:
      return "router";
    case StepPart::kDense:
      return "dense";
    case StepPart::kExpertsUp:
      return "experts up";
    case StepPart::kExpertsDown:
      return "experts down";
    case StepPart::kHead:
      return "head";
    case StepPart::kWaiting:
      return "waiting";
  }
  return {};
}

void StepProfile::start() {
  parts_ = {};
  experts_ = 0;
  part_ = StepPart::kOutside;
  since_ = Clock::now();
}

void StepProfile::stop() {
  enter(StepPart::kOutside);
}

StepPart StepProfile::enter(StepPart part) {
  const StepPart interrupted = part_;
  if (!times_) return interrupted;
  const Clock::time_point now = Clock::now();
  current().seconds += between(since_, now);
  since_ = now;
  part_ = part;
  return interrupted;
}

void StepProfile::move_to(StepPart part, double seconds) {
  if (!times_) return;
  current().seconds -= seconds;
  Time& time = parts_[static_cast<std::size_t>(part)];
  time.seconds += seconds;
  time.in_regions += seconds;
}

void StepProfile::enter_region() {
  if (times_) region_since_ = Clock::now();
}

void StepProfile::leave_region() {
  if (!times_) return;
  const Clock::time_point now = Clock::now();
  current().in_regions += between(region_since_, now);
  if (regions_ != nullptr) regions_->ran(0, region_since_, now);
}

}  // namespace tessera::ops
