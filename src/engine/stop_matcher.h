// Stop strings in text that arrives in pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Holds back text that may be the start of a stop string until the next piece decides.
class StopMatcher {
 public:
  explicit StopMatcher(
      std::vector<std::string> stops);  // throws Error(kInvalidArgument) if one is empty

  // Text that is certainly not part of a stop string. Once one is complete, stopped() is true and
  // the text before it has been returned; nothing follows.
  std::string push(std::string_view piece);
  std::string finish();  // what was held back, when no more text follows
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace tessera
