#include "app/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include "app/output.h"

namespace tessera::app {

bool ProgressBar::wanted() {
  return ::isatty(STDERR_FILENO) == 1;
}

void ProgressBar::show(std::size_t bytes_done, std::size_t bytes_total) {
  if (bytes_done == bytes_total) return erase();
  const Clock::time_point now = Clock::now();
  if (now - last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  const double done = static_cast<double>(bytes_done);
  draw("", bytes_done, bytes_total,
       fmt::format("{:.1f}/{:.1f} GB  {:.1f} GB/s  ", done / 1e9,
                   static_cast<double>(bytes_total) / 1e9,
                   seconds() > 0 ? done / seconds() / 1e9 : 0));
}

void ProgressBar::show_step(std::string_view what, std::size_t steps_done,
                            std::size_t steps_total) {
  draw(what, steps_done, steps_total, "");
}

void ProgressBar::erase() {
  write_err("\r\x1b[K");
}

double ProgressBar::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void ProgressBar::draw(std::string_view what, std::size_t done, std::size_t total,
                       std::string_view rate) const {
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double left = share > 0 ? seconds() / share - seconds() : 0;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(share * kWidth);
  write_err(fmt::format("\r{}{} [{}{}] {:3.0f} %  {}ETA {:.0f} s\x1b[K", label_, what,
                        std::string(static_cast<std::size_t>(filled), '#'),
                        std::string(static_cast<std::size_t>(kWidth - filled), '.'), share * 100,
                        rate, left));
}

}  // namespace tessera::app
