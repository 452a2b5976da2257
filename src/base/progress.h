// How the library tells its caller how far a long job is. The library itself prints nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace tessera {

// Called from one thread at a time, with done rising to total.
using ProgressFn = std::function<void(std::size_t bytes_done, std::size_t bytes_total)>;

// Counts towards a total that several steps share.
class ProgressCounter {
 public:
  ProgressCounter(ProgressFn report, std::size_t total)
      : report_(std::move(report)), total_(total) {}

  void add(std::size_t bytes) {
    done_ += bytes;
    if (report_) report_(done_, total_);
  }
  // A step that was counted on and will not be taken.
  void skip(std::size_t bytes) { total_ -= bytes; }

 private:
  ProgressFn report_;
  std::size_t total_;
  std::size_t done_ = 0;
};

}  // namespace tessera
