// Standard output and standard error of the command.
#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tessera::app {

// Opens what the caller closed of the descriptors 0 to 2, so that no file of the run gets such a
// number and takes what is meant for the terminal. Writing to them still fails.
void open_standard_streams();

// To standard output. Throws Error(kIo) when it cannot be written.
void write_out(std::string_view text);
void flush_out();

template <typename... Args>
void print_out(fmt::format_string<Args...> text, Args&&... args) {
  write_out(fmt::format(text, std::forward<Args>(args)...));
}

// To standard error; what cannot be written there is lost.
void write_err(std::string_view text) noexcept;

// "tessera: SENTENCE" on one line of standard error, whatever the sentence holds.
void write_error_line(std::string_view sentence) noexcept;

// The same for what does not end the run: "tessera: warning: SENTENCE".
void write_warning_line(std::string_view sentence);

}  // namespace tessera::app
