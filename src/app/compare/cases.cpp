#include "app/compare/cases.h"

#include <array>
#include <cstddef>

namespace tessera::app {

namespace {

constexpr std::int64_t kBatchTokens = 50;
constexpr std::array<std::int64_t, 3> kBatches = {2, 4, 8};

constexpr std::array<const char*, 8> kBatchPrompts = {
    "你好",
    "你好，请介绍一下你自己",
    "请详细介绍一下人工智能的发展历程",
    "What is a key-value cache?",
    "介绍一下Python语言",
    "Explain how a compiler works.",
    "什么是内存带宽？",
    "Write a short story about a river.",
};

}  // namespace

std::vector<Case> single_cases() {
  return {{1, 10, {"你好"}},
          {1, 20, {"你好"}},
          {1, 50, {"你好，请介绍一下你自己"}},
          {1, 100, {"请详细介绍一下人工智能的发展历程"}}};
}

std::vector<Case> default_cases() {
  std::vector<Case> cases = single_cases();
  for (const std::int64_t batch : kBatches) {
    cases.push_back({batch, kBatchTokens, {kBatchPrompts.begin(), kBatchPrompts.begin() + batch}});
  }
  return cases;
}

std::vector<Case> own_cases(const std::vector<std::int64_t>& batches,
                            const std::vector<std::int64_t>& output_tokens,
                            const std::vector<std::string>& prompts) {
  std::vector<Case> cases;
  for (const std::int64_t batch : batches) {
    for (const std::int64_t tokens : output_tokens) {
      std::size_t used = 0;
      while (used < prompts.size()) {
        Case one{batch, tokens, {}};
        for (std::int64_t i = 0; i < batch; ++i) {
          one.prompts.push_back(prompts[used++ % prompts.size()]);
        }
        cases.push_back(std::move(one));
      }
    }
  }
  return cases;
}

nlohmann::ordered_json to_json(const Case& one) {
  return {{"batch", one.batch}, {"output_tokens", one.output_tokens}, {"prompts", one.prompts}};
}

}  // namespace tessera::app
