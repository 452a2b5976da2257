#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/fail.h"

namespace tessera {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty()) fail(ErrorCode::kInvalidArgument, "a stop string must not be empty");
  }
}

std::string StopMatcher::push(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;

  // The one that is complete first, so that the outcome does not depend on how the text was cut; of
  // several that end at one place the one that starts first.
  std::size_t first = std::string::npos;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (std::pair(at + stop.size(), at) < std::pair(end, first)) {
      first = at;
      end = at + stop.size();
    }
  }
  if (first != std::string::npos) {
    stopped_ = true;
    std::string out = held_.substr(0, first);
    held_.clear();
    return out;
  }

  // The longest tail that begins a stop string stays.
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace tessera
