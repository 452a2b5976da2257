// Throwing tile::KernelError with a formatted sentence.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <tessera/tile_element.h>

namespace tessera::tile {

// Every error of the language, its compiler and its calls. The numbers never change their meaning.
namespace code {
inline constexpr std::string_view kUnsupportedShape = "TL101";
inline constexpr std::string_view kUnwrittenRead = "TL102";
inline constexpr std::string_view kOverlappingStores = "TL103";
inline constexpr std::string_view kNeverStored = "TL104";
inline constexpr std::string_view kDynamicDim = "TL105";
inline constexpr std::string_view kTileTooLarge = "TL106";
inline constexpr std::string_view kDtypeMismatch = "TL107";
inline constexpr std::string_view kUnknownOption = "TL108";
inline constexpr std::string_view kOutOfBounds = "TL109";
inline constexpr std::string_view kOutsideKernel = "TL110";
inline constexpr std::string_view kReadOnly = "TL111";
inline constexpr std::string_view kBadSignature = "TL112";
inline constexpr std::string_view kInPlace = "TL113";
inline constexpr std::string_view kBadIrText = "TL201";
inline constexpr std::string_view kBadIr = "TL202";
inline constexpr std::string_view kCannotLower = "TL203";
inline constexpr std::string_view kBadCall = "TL301";
inline constexpr std::string_view kAliasing = "TL302";
inline constexpr std::string_view kCompiler = "TL303";
}  // namespace code

inline std::string to_string(const Location& location) {
  return location.known() ? fmt::format("{}:{}", location.file, location.line) : std::string();
}

template <typename... Args>
[[noreturn]] void fail_at(std::string_view number, const Location& location,
                          fmt::format_string<Args...> sentence, Args&&... args) {
  std::string text = fmt::format("{}: ", number);
  if (location.known()) text += to_string(location) + ": ";
  text += fmt::format(sentence, std::forward<Args>(args)...);
  throw KernelError(std::string(number), text, location);
}

}  // namespace tessera::tile
