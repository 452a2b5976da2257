// Checks of flag values, with sentences that say what is allowed.
#pragma once

#include <algorithm>
#include <string>

#include <CLI/CLI.hpp>

namespace tessera::app {

// A whole number from `least` (0 or 1) up, with at most 18 digits.
inline CLI::Validator whole_number(int least) {
  return CLI::Validator(
      [least](const std::string& text) -> std::string {
        const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
          return '0' <= c && c <= '9';
        });
        const bool zero = text.find_first_not_of('0') == std::string::npos;
        if (digits && !(zero && least > 0) && text.size() <= 18) return {};
        return "must be a whole number from " + std::to_string(least) + " up, not " + text;
      },
      "N");
}

}  // namespace tessera::app
