// What is measured: a batch of prompts and how many tokens each sequence may get.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tessera::app {

struct Case {
  std::int64_t batch = 1;
  std::int64_t output_tokens = 0;
  std::vector<std::string> prompts;  // `batch` of them
};

// One sequence: 10 and 20 tokens with 你好, 50 and 100 with longer questions.
std::vector<Case> single_cases();

// The same, and batches of 2, 4 and 8 different prompts: equal ones would share their experts.
std::vector<Case> default_cases();

// For every batch size and output length as many cases as it takes to use every prompt: the prompts
// fill the batches in turn, and start over where they run out.
std::vector<Case> own_cases(const std::vector<std::int64_t>& batches,
                            const std::vector<std::int64_t>& output_tokens,
                            const std::vector<std::string>& prompts);

nlohmann::ordered_json to_json(const Case& one);

}  // namespace tessera::app
