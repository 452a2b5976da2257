// A line on the terminal that shows how far a long job is.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::app {

// A bar with its share and the time left. Bytes are redrawn ten times a second and show GB/s too;
// the line is erased when all are done.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label) : label_(std::move(label)) {}

  static bool wanted();  // standard error is a terminal
  void show(std::size_t bytes_done, std::size_t bytes_total);

  // A job of a few long steps: drawn at once, and erased only by erase().
  void show_step(std::string_view what, std::size_t steps_done, std::size_t steps_total);
  static void erase();

 private:
  using Clock = std::chrono::steady_clock;

  double seconds() const;
  void draw(std::string_view what, std::size_t done, std::size_t total,
            std::string_view rate) const;

  std::string label_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_drawn_;
};

}  // namespace tessera::app
