// The bundled model through the public interface, against transformers
// (tests/data/demo/greedy.json).
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tessera/language_model.h>

#include "io/json_file.h"
#include "tests/model/kernel_combinations.h"

namespace tessera {
namespace {

struct Expected {
  std::string prompt;
  bool chat;
  std::vector<std::int32_t> prompt_ids;
  std::vector<std::int32_t> token_ids;  // greedy, at most 100, with the end token where it came up
  std::string text;
};

const std::vector<Expected>& expected() {
  static const std::vector<Expected> all = [] {
    std::vector<Expected> list;
    for (const auto& e : read_json_file(TESSERA_TEST_DATA "/demo/greedy.json")) {
      list.push_back(
          {e.at("prompt"), e.at("template"), e.at("prompt_ids"), e.at("token_ids"), e.at("text")});
    }
    return list;
  }();
  return all;
}

LanguageModel load(WeightFormat format, int threads = 2, const KernelOptions& kernels = {}) {
  LoadOptions options;
  options.format = format;
  options.threads = threads;
  options.kernels = kernels;
  options.warn = [](std::string_view sentence) { ADD_FAILURE() << "warning: " << sentence; };
  return LanguageModel::load(TESSERA_DEMO_MODEL, options);
}

GenerationOptions greedy(std::int64_t max_new_tokens = 100) {
  GenerationOptions options;
  options.max_new_tokens = max_new_tokens;
  options.sampling.temperature = 0;
  return options;
}

std::vector<std::int32_t> prompt_of(const LanguageModel& model, const Expected& e) {
  if (!e.chat) return model.text_prompt(e.prompt);
  const Message message{"user", e.prompt};
  return model.chat_prompt({&message, 1});
}

TEST(DemoModel, PromptsHaveTheIdsThatTransformersGives) {
  const LanguageModel model = load(WeightFormat::kBF16);
  ASSERT_GE(expected().size(), 6u);
  for (const Expected& e : expected()) EXPECT_EQ(prompt_of(model, e), e.prompt_ids) << e.prompt;
}

TEST(DemoModel, GreedyTokensEqualTransformersInEveryDtype) {
  for (WeightFormat dtype : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kF16}) {
    LanguageModel model = load(dtype);
    for (const Expected& e : expected()) {
      const auto result = model.generate_ids({&e.prompt_ids, 1}, greedy());
      EXPECT_EQ(result.completions[0].token_ids, e.token_ids)
          << e.prompt << " " << to_string(dtype);
      EXPECT_EQ(result.completions[0].text, e.text);
    }
  }
}

TEST(DemoModel, GreedyTokensDoNotDependOnChunksBatchAndThreads) {
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::size_t i = 0; i < 4; ++i) prompts.push_back(expected()[i].prompt_ids);
  for (int threads : {1, 2, 3}) {
    LanguageModel model = load(WeightFormat::kBF16, threads);
    for (std::int64_t chunk : {1, 7, 64}) {
      GenerationOptions options = greedy();
      options.prefill_chunk = chunk;
      const auto together = model.generate_ids(prompts, options);
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(together.completions[i].token_ids, expected()[i].token_ids)
            << threads << " threads, chunks of " << chunk << ", prompt " << i;
        const auto alone = model.generate_ids({&prompts[i], 1}, options);
        EXPECT_EQ(alone.completions[0].token_ids, expected()[i].token_ids);
      }
    }
  }
}

TEST(DemoModel, GreedyTokensDoNotDependOnTheKernels) {
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::size_t i = 0; i < 4; ++i) prompts.push_back(expected()[i].prompt_ids);
  for (WeightFormat dtype : {WeightFormat::kF32, WeightFormat::kBF16}) {
    for (const KernelOptions& kernels : testing::kernel_combinations()) {
      SCOPED_TRACE(testing::describe(kernels) + ", " + std::string(to_string(dtype)));
      LanguageModel model = load(dtype, 2, kernels);
      const auto together = model.generate_ids(prompts, greedy());
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(together.completions[i].token_ids, expected()[i].token_ids) << "prompt " << i;
      }
      const auto alone = model.generate_ids({prompts.data(), 1}, greedy());
      EXPECT_EQ(alone.completions[0].token_ids, expected()[0].token_ids);
      const auto runs = [](const std::string& name, const std::string& wanted) {
        return wanted == "auto" ? name != "reference" : name == wanted;
      };
      const KernelNames ran = model.kernels();
      EXPECT_TRUE(runs(ran.rms_norm, kernels.rms_norm)) << ran.rms_norm;
      EXPECT_TRUE(runs(ran.rope, kernels.rope)) << ran.rope;
      EXPECT_TRUE(runs(ran.mla_prolog, kernels.mla_prolog)) << ran.mla_prolog;
      EXPECT_TRUE(runs(ran.kv_cache, kernels.kv_cache)) << ran.kv_cache;
    }
  }
}

TEST(DemoModel, TheKernelsHaveTheSameBitsForEveryThreadCount) {
  const std::vector<std::int32_t>& ids = expected()[0].prompt_ids;
  for (WeightFormat dtype : {WeightFormat::kF32, WeightFormat::kBF16}) {
    for (const KernelOptions& kernels : testing::fast_combinations()) {
      const std::vector<float> one = load(dtype, 1, kernels).logits(ids).logits;
      for (int threads : {2, 3}) {
        EXPECT_EQ(load(dtype, threads, kernels).logits(ids).logits, one)
            << testing::describe(kernels) << ", " << threads << " threads";
      }
    }
  }
}

TEST(DemoModel, StreamedPiecesMakeUpTheText) {
  LanguageModel model = load(WeightFormat::kBF16);
  GenerationOptions options = greedy();
  std::vector<std::string> streamed(2);
  options.on_text = [&](std::size_t prompt, std::string_view text) { streamed[prompt] += text; };
  const std::vector<std::vector<std::int32_t>> prompts = {expected()[0].prompt_ids,
                                                          expected()[1].prompt_ids};
  const auto result = model.generate_ids(prompts, options);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(streamed[i], result.completions[i].text);
    EXPECT_EQ(result.completions[i].text, expected()[i].text);
  }
}

TEST(DemoModel, TheSameSeedGivesTheSameTextAtAnyBatchSize) {
  LanguageModel model = load(WeightFormat::kF32);
  GenerationOptions options = greedy(30);
  options.sampling.temperature = 3;  // hot enough that the model wanders
  options.sampling.top_p = 0.95;
  options.sampling.seed = 7;
  const std::vector<std::vector<std::int32_t>> prompts = {
      expected()[0].prompt_ids, expected()[1].prompt_ids, expected()[0].prompt_ids};
  const auto alone = model.generate_ids({prompts.data(), 1}, options);
  const auto batch = model.generate_ids(prompts, options);
  EXPECT_EQ(batch.completions[0].token_ids, alone.completions[0].token_ids);
  EXPECT_EQ(batch.completions[2].token_ids, alone.completions[0].token_ids);
  EXPECT_NE(alone.completions[0].token_ids,
            std::vector(expected()[0].token_ids.begin(), expected()[0].token_ids.begin() + 30));
  options.sampling.seed = 8;
  EXPECT_NE(model.generate_ids({prompts.data(), 1}, options).completions[0].token_ids,
            alone.completions[0].token_ids);
}

TEST(DemoModel, EndsWithEachFinishReason) {
  LanguageModel model = load(WeightFormat::kBF16);
  const Expected& e = expected()[0];  // a short answer that ends by itself
  const auto run = [&](const GenerationOptions& options) {
    return std::move(model.generate_ids({&e.prompt_ids, 1}, options).completions[0]);
  };
  EXPECT_EQ(run(greedy()).finish_reason, FinishReason::kEndToken);

  const Completion cut = run(greedy(5));
  EXPECT_EQ(cut.finish_reason, FinishReason::kLength);
  EXPECT_EQ(cut.token_ids.size(), 5u);

  GenerationOptions options = greedy();
  options.context = std::ssize(e.prompt_ids) + 3;
  const Completion full = run(options);
  EXPECT_EQ(full.finish_reason, FinishReason::kContext);
  EXPECT_EQ(full.token_ids.size(), 3u);

  // A stop string from the middle of the answer, which no token boundary respects.
  const auto boundary = [&](std::size_t i) {  // of characters, at or after byte i
    while (i < e.text.size() && (static_cast<unsigned char>(e.text[i]) & 0xc0) == 0x80) ++i;
    return i;
  };
  const std::size_t begin = boundary(e.text.size() / 2);
  const std::string stop = e.text.substr(begin, boundary(begin + 7) - begin);
  options = greedy();
  options.stop = {"never there", stop};
  const Completion stopped = run(options);
  EXPECT_EQ(stopped.finish_reason, FinishReason::kStopString);
  EXPECT_EQ(stopped.text, e.text.substr(0, e.text.find(stop)));
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

TEST(DemoModel, RefusesWhatCannotRun) {
  LanguageModel model = load(WeightFormat::kBF16);
  const std::vector<std::int32_t> prompt = expected()[0].prompt_ids;
  const auto with = [&](const std::vector<std::int32_t>& ids, auto change) {
    GenerationOptions options = greedy(4);
    change(options);
    return error_of([&] { model.generate_ids({&ids, 1}, options); });
  };
  const auto nothing = [](GenerationOptions&) {};
  EXPECT_EQ(with({}, nothing), "invalid-argument: the prompt is empty; give it at least one token");
  EXPECT_EQ(with({99999}, nothing),
            "invalid-argument: token id 99999 is outside the vocabulary of " +
                std::to_string(model.vocab_size()));
  EXPECT_EQ(with(prompt, [](auto& o) { o.max_new_tokens = 0; }),
            "invalid-argument: max_new_tokens must be 1 or more, not 0");
  EXPECT_EQ(with(prompt, [](auto& o) { o.prefill_chunk = 0; }),
            "invalid-argument: prefill_chunk must be 1 or more, not 0");
  EXPECT_EQ(with(prompt, [](auto& o) { o.stop = {""}; }),
            "invalid-argument: a stop string must not be empty");
  EXPECT_EQ(with(prompt, [](auto& o) { o.context = 4; }),
            "context-overflow: the prompt has " + std::to_string(prompt.size()) +
                " tokens, and a context of 4 leaves no room for an answer; shorten it or raise "
                "--context");
  EXPECT_EQ(with(prompt, [&](auto& o) { o.context = model.max_context() + 1; }),
            "invalid-argument: context must be from 1 to " + std::to_string(model.max_context()) +
                " (the positions of this model), not " + std::to_string(model.max_context() + 1));
  const std::vector<std::int32_t> endless(static_cast<std::size_t>(model.max_context()), 300);
  EXPECT_EQ(with(endless, nothing),
            "context-overflow: the prompt has " + std::to_string(endless.size()) +
                " tokens, and a context of " + std::to_string(model.max_context()) +
                " leaves no room for an answer; shorten it");
}

TEST(DemoModel, LogitsAgreeWithGeneration) {
  LanguageModel model = load(WeightFormat::kF32);
  const Expected& e = expected()[0];
  std::vector<std::int32_t> all = e.prompt_ids;
  all.insert(all.end(), e.token_ids.begin(), e.token_ids.end());
  const Logits logits = model.logits(all, true);
  EXPECT_EQ(logits.n_tokens, std::ssize(all));
  EXPECT_EQ(logits.vocab_size, model.vocab_size());
  ASSERT_FALSE(logits.hidden.empty());
  EXPECT_EQ(std::ssize(logits.hidden[0]), logits.n_tokens * logits.hidden_size);
  for (std::size_t i = 0; i < e.token_ids.size(); ++i) {
    const auto row = logits.logits.begin() +
                     static_cast<std::ptrdiff_t>((e.prompt_ids.size() + i - 1)) * logits.vocab_size;
    EXPECT_EQ(std::max_element(row, row + logits.vocab_size) - row, e.token_ids[i]);
  }
}

TEST(DemoModel, RefusesANegativeNumberOfThreads) {
  EXPECT_EQ(error_of([] { load(WeightFormat::kBF16, -1); }),
            "invalid-argument: LoadOptions::threads must be 0 (the CPUs of this process) or more, "
            "not -1");
}

TEST(DemoModel, TokensThatTheTokenizerLacksHaveNoText) {
  const LanguageModel model = load(WeightFormat::kBF16);  // its vocabulary is padded
  const auto last = static_cast<std::int32_t>(model.vocab_size() - 1);
  const std::vector<std::int32_t> ids = {last, model.text_prompt("a").back(), last};
  EXPECT_EQ(model.decode(ids), "a");
}

TEST(DemoModel, WithoutTokenizerItStillGenerates) {
  LanguageModel model = LanguageModel::load_without_tokenizer(TESSERA_DEMO_MODEL);
  const auto result = model.generate_ids({&expected()[0].prompt_ids, 1}, greedy());
  EXPECT_EQ(result.completions[0].token_ids, expected()[0].token_ids);
  EXPECT_EQ(result.completions[0].text, "");
  EXPECT_EQ(error_of([&] { model.text_prompt("Hello"); }),
            "invalid-argument: this needs a tokenizer, and the model was loaded without one");
}

}  // namespace
}  // namespace tessera
