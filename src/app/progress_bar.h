// A line on the terminal that shows how far a long job is.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tessera::app {

// Bytes, GB/s and the time left, redrawn ten times a second and erased at the end.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label) : label_(std::move(label)) {}

  static bool wanted();  // standard error is a terminal
  void show(std::size_t bytes_done, std::size_t bytes_total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_drawn_;
};

}  // namespace tessera::app
