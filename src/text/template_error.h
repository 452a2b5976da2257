// Errors that name a line of a chat template.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

#include <tessera/error.h>

namespace tessera::text {

template <typename... Args>
[[noreturn]] void template_fail(int line, fmt::format_string<Args...> sentence, Args&&... args) {
  throw Error(ErrorCode::kBadTemplate,
              fmt::format("chat template, line {}: {}", line,
                          fmt::format(sentence, std::forward<Args>(args)...)));
}

}  // namespace tessera::text
