#include "app/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include "app/output.h"

namespace tessera::app {

bool ProgressBar::wanted() {
  return ::isatty(STDERR_FILENO) == 1;
}

void ProgressBar::show(std::size_t bytes_done, std::size_t bytes_total) {
  const Clock::time_point now = Clock::now();
  if (bytes_done == bytes_total) {
    write_err("\r\x1b[K");
    return;
  }
  if (now - last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(bytes_done) / seconds : 0;
  const double share = static_cast<double>(bytes_done) / static_cast<double>(bytes_total);
  const double left = rate > 0 ? static_cast<double>(bytes_total - bytes_done) / rate : 0;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(share * kWidth);
  write_err(fmt::format("\r{} [{}{}] {:3.0f} %  {:.1f}/{:.1f} GB  {:.1f} GB/s  ETA {:.0f} s\x1b[K",
                        label_, std::string(static_cast<std::size_t>(filled), '#'),
                        std::string(static_cast<std::size_t>(kWidth - filled), '.'), share * 100,
                        static_cast<double>(bytes_done) / 1e9,
                        static_cast<double>(bytes_total) / 1e9, rate / 1e9, left));
}

}  // namespace tessera::app
