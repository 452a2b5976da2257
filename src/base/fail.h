// Throwing tessera::Error with a formatted sentence.
#pragma once

#include <utility>

#include <fmt/format.h>

#include <tessera/error.h>

namespace tessera {

// fail(ErrorCode::kIo, "{}: cannot be read ({})", path, reason)
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> sentence, Args&&... args) {
  throw Error(code, fmt::format(sentence, std::forward<Args>(args)...));
}

}  // namespace tessera
