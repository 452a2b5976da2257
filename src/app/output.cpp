#include "app/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include <fcntl.h>
#include <unistd.h>

#include "base/fail.h"
#include "io/quote.h"

namespace tessera::app {

namespace {

[[noreturn]] void fail_out() {
  fail(ErrorCode::kIo, "standard output cannot be written ({})",
       std::strerror(errno != 0 ? errno : EIO));
}

}  // namespace

void open_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    if (::open("/dev/null", O_RDONLY) != descriptor) return;  // the lowest free number
  }
}

void write_out(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_out();
}

void flush_out() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail_out();
}

void write_err(std::string_view text) noexcept {
  // Nothing is left to do where this fails too.
  if (std::fwrite(text.data(), 1, text.size(), stderr) == text.size()) std::fflush(stderr);
}

void write_error_line(std::string_view sentence) noexcept {
  try {
    write_err("tessera: " + on_one_line(sentence) + "\n");
  } catch (const std::exception&) {  // no memory for the line
    write_err("tessera: out of memory\n");
  }
}

void write_warning_line(std::string_view sentence) {
  write_err("tessera: warning: " + on_one_line(sentence) + "\n");
}

}  // namespace tessera::app
