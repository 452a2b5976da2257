#include "app/validators.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/thread_pool.h"
#include "io/quote.h"

namespace tessera::app {

namespace {

constexpr std::size_t kMaxDigits = 18;
constexpr std::int64_t kMaxTokenId = std::numeric_limits<std::int32_t>::max();

// As the user wrote it, but never invisible.
std::string shown(const std::string& text) {
  return text.empty() ? "empty" : on_one_line(text);
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
}

bool is_whole(const std::string& text, std::int64_t least, std::int64_t most) {
  if (!is_digits(text) || text.size() > kMaxDigits) return false;
  if (text.size() > 1 && text[0] == '0') return false;
  const std::int64_t value = std::stoll(text);
  return least <= value && value <= most;
}

bool is_decimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text == "nan" || text == "inf") return true;
  if (text.size() > 1 && text[0] == '0' && is_digits(text.substr(1, 1))) return false;
  const std::size_t mantissa = std::min(text.find_first_of("eE"), text.size());
  const std::string_view number = text.substr(0, mantissa);
  const std::size_t point = std::min(number.find('.'), number.size());
  const std::string_view whole = number.substr(0, point);
  std::string_view fraction = number.substr(std::min(point + 1, number.size()));
  if (whole.empty() && fraction.empty()) return false;
  if ((!whole.empty() && !is_digits(whole)) || (!fraction.empty() && !is_digits(fraction))) {
    return false;
  }
  if (mantissa == text.size()) return true;
  std::string_view exponent = text.substr(mantissa + 1);
  if (exponent.starts_with('-') || exponent.starts_with('+')) exponent.remove_prefix(1);
  return is_digits(exponent);
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Several, with commas between them; what: "token ids such as 1,2,3".
CLI::Validator whole_numbers(std::int64_t least, std::int64_t most, const std::string& what,
                             const std::string& type_name) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        for (const std::string& number : split_at_commas(text)) {
          if (!is_whole(number, least, most)) return "must be " + what + ", not " + shown(text);
        }
        return {};
      },
      type_name);
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const std::string range = most == kMaxWhole
                                ? "from " + std::to_string(least) + " up"
                                : "from " + std::to_string(least) + " to " + std::to_string(most);
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        if (is_whole(text, least, most)) return {};
        return "must be a whole number " + range + ", not " + shown(text);
      },
      "N");
}

CLI::Validator thread_count() {
  return whole_number(1, ThreadPool::kMaxThreads);
}

CLI::Validator decimal() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (is_decimal(text)) return {};
        return "must be a decimal number such as 0.7, not " + shown(text);
      },
      "X");
}

CLI::Validator not_empty(const std::string& what) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        return text.empty() ? "must not be empty; give " + what : std::string();
      },
      "");
}

CLI::Validator token_ids() {
  return whole_numbers(0, kMaxTokenId, "token ids such as 1,2,3", "IDS");
}

CLI::Validator numbers_of(const std::string& what, std::int64_t most) {
  const std::string range = most == kMaxWhole ? "up" : "to " + std::to_string(most);
  return whole_numbers(1, most, "numbers of " + what + " from 1 " + range + " such as 1,2,8",
                       "N,N");
}

CLI::Validator lengths() {
  return numbers_of("tokens");
}

std::vector<std::int64_t> parse_lengths(const std::string& text) {
  std::vector<std::int64_t> lengths;
  for (const std::string& length : split_at_commas(text)) lengths.push_back(std::stoll(length));
  return lengths;
}

std::vector<std::int32_t> parse_token_ids(const std::string& text) {
  std::vector<std::int32_t> ids;
  if (text.empty()) return ids;
  for (const std::string& id : split_at_commas(text)) {
    ids.push_back(static_cast<std::int32_t>(std::stoll(id)));
  }
  return ids;
}

}  // namespace tessera::app
