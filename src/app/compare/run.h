// One run of one side of the comparison.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/compare/cases.h"

namespace tessera::app {

using TokenIds = std::vector<std::int32_t>;

// What is run: `tessera ask` with these flags, or a command that is not ours.
struct Side {
  bool external = false;
  std::vector<std::string> words;  // the flags, or the command
};

struct Run {
  std::string started;  // UTC, as 2026-11-30T20:01:07Z
  double wall_s = 0;
  std::string failure;                     // empty: it gave the rest
  std::vector<std::string> warnings;       // of ask
  nlohmann::ordered_json report;           // as it came, but texts and tokens
  std::map<std::string, double> measured;  // rates and times, by their keys in the report

  // Of ask alone, for each sequence.
  std::vector<TokenIds> prompt_ids;
  std::vector<TokenIds> token_ids;
  std::vector<std::string> text;
  std::int64_t input_tokens = 0;
  std::int64_t generated_tokens = 0;
};

// Throws Error(kInvalidArgument), naming `option`, for flags that the comparison itself sets.
void check_flags(const std::vector<std::string>& flags, const std::string& option);

// Greedy, and with a report that goes to no file.
Run run_ask(const std::vector<std::string>& flags, const std::string& model, const Case& one,
            std::chrono::seconds timeout);

// llama-bench with -o json. In its words {prompt_tokens} and {generated_tokens} are those of
// `ours`.
Run run_llama_bench(const std::vector<std::string>& command, const Run& ours,
                    std::chrono::seconds timeout);

std::string utc_now();

}  // namespace tessera::app
