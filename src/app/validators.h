// Checks of flag values, with sentences that say what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tessera::app {

constexpr std::int64_t kMaxWhole = 999'999'999'999'999'999;  // every number of 18 digits

// A whole number from least to most, in decimal digits without zeros in front.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = kMaxWhole);

// A number of threads, from 1.
CLI::Validator thread_count();

// A decimal number such as 0.7 or 1e-3. What range it must be in, nan and inf included, is for
// others to check.
CLI::Validator decimal();

// Text that is not empty; what: "the name of a file".
CLI::Validator not_empty(const std::string& what);

// Token ids as 1,2,3; parse_token_ids() is for text that passed.
CLI::Validator token_ids();
std::vector<std::int32_t> parse_token_ids(const std::string& text);

// Numbers from 1 (to most) as 1,2,8; what: "sequences". For parse_lengths() too.
CLI::Validator numbers_of(const std::string& what, std::int64_t most = kMaxWhole);

// Numbers of tokens as 1,2,8; parse_lengths() is for text that passed.
CLI::Validator lengths();
std::vector<std::int64_t> parse_lengths(const std::string& text);

}  // namespace tessera::app
