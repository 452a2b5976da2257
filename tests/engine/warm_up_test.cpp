// Steps that make kernels ready before the first token.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tessera/error.h>

#include "engine/generator.h"
#include "tests/always_parallel.h"
#include "tests/engine/recording_norm.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

using testing::kRecordingNorm;
using testing::recorded_rows;

constexpr ops::RmsNormImplementation kFailingNorm = {
    "failing", [](std::int64_t, std::int64_t) { return std::string(); },
    [](const ops::ConstRows&, const float*, float, const ops::Rows&, ops::Executor&) {
      throw Error(ErrorCode::kCompiler, "no code for this CPU");
    }};

class WarmUp : public ::testing::Test {
 protected:
  static constexpr std::int64_t kPromptTokens = 5;

  GenerationResult run(const KernelChoice& choice, std::size_t n_prompts,
                       std::optional<std::vector<std::int64_t>> lengths) {
    warnings_.clear();
    recorded_rows.clear();
    form_ = choice.kv_cache;
    kernels_.emplace(choice, config_, weights(), executor_,
                     [&](std::string_view sentence) { warnings_.emplace_back(sentence); });
    return again(n_prompts, std::move(lengths));
  }

  const ModelWeights& weights() {
    const auto made = weights_.find(form_);
    if (made != weights_.end()) return made->second;
    return weights_
        .emplace(form_,
                 load_weights(folder_, config_, WeightFormat::kF32, form_, executor_, nullptr))
        .first->second;
  }

  // With the same kernels.
  GenerationResult again(std::size_t n_prompts, std::optional<std::vector<std::int64_t>> lengths) {
    std::vector<std::vector<std::int32_t>> prompts;
    for (std::size_t i = 0; i < n_prompts; ++i) {
      prompts.emplace_back(kPromptTokens, static_cast<std::int32_t>(i + 3));
    }
    GenerationOptions options;
    options.max_new_tokens = 4;
    options.sampling.temperature = 0;
    options.warmup_seq_lens = std::move(lengths);
    return generate(
        {config_, weights(), nullptr, executor_, *kernels_, WeightFormat::kF32, DType::kF32, {}},
        prompts, options);
  }

  std::filesystem::path folder_ = testing::reference_folder("lite");
  testing::AlwaysParallel executor_{2};
  ModelConfig config_ = ModelConfig::load(folder_);
  KvCacheForm form_ = KvCacheForm::kLatent;  // of the last run
  std::map<KvCacheForm, ModelWeights> weights_;
  std::optional<ModelKernels> kernels_;
  std::vector<std::string> warnings_;
};

using Rows = std::vector<std::int64_t>;

std::vector<std::vector<std::int32_t>> tokens_of(const GenerationResult& result) {
  std::vector<std::vector<std::int32_t>> all;
  for (const Completion& c : result.completions) all.push_back(c.token_ids);
  return all;
}

TEST_F(WarmUp, IsForOneAndTwoTokensOfEveryPrompt) {
  const GenerationResult result = run({.rms_norm = &kRecordingNorm}, 1, std::nullopt);
  // Of the last row alone logits are made. Then the prompt, and one token per step.
  EXPECT_EQ(recorded_rows, (Rows{1, 2, 1, 5, 1}));
  EXPECT_GT(result.warmup_s, 0);
  run({.rms_norm = &kRecordingNorm}, 3, std::nullopt);
  EXPECT_EQ(recorded_rows, (Rows{3, 6, 3, 15, 3}));
}

TEST_F(WarmUp, IsForTheLengthsThatAreAskedFor) {
  run({.rms_norm = &kRecordingNorm}, 1, Rows{8, 2});
  EXPECT_EQ(recorded_rows, (Rows{8, 1, 2, 1, 5, 1}));
  const GenerationResult none = run({.rms_norm = &kRecordingNorm}, 1, Rows{});
  EXPECT_EQ(recorded_rows, (Rows{5, 1}));
  EXPECT_LT(none.warmup_s, 0.01);
}

TEST_F(WarmUp, HappensOncePerShape) {
  run({.rms_norm = &kRecordingNorm}, 1, std::nullopt);
  recorded_rows.clear();
  again(1, std::nullopt);
  EXPECT_EQ(recorded_rows, (Rows{5, 1}));
  recorded_rows.clear();
  again(2, Rows{2, 1});  // another batch size
  EXPECT_EQ(recorded_rows, (Rows{4, 2, 10, 2}));
}

TEST_F(WarmUp, HasNothingToDoForNativeKernels) {
  EXPECT_EQ(run({}, 1, std::nullopt).warmup_s, 0);
}

TEST_F(WarmUp, ChangesNoToken) {
  const auto without = tokens_of(run({}, 3, Rows{}));
  for (const KvCacheForm form : {KvCacheForm::kLatent, KvCacheForm::kExpanded}) {
    const auto with = tokens_of(run({.kv_cache = form}, 3, Rows{1, 2, 8}));
    EXPECT_EQ(with, without) << to_string(form);
  }
}

TEST_F(WarmUp, AKernelThatFailsIsAWarning) {
  const auto native = tokens_of(run({}, 1, Rows{}));
  EXPECT_EQ(tokens_of(run({.rms_norm = &kFailingNorm}, 1, std::nullopt)), native);
  EXPECT_EQ(warnings_, std::vector<std::string>{"rms_norm failing failed (no code for this CPU); "
                                                "the native operators run instead"});
}

// The cache has a page for the prompt and its answer.
TEST_F(WarmUp, AStepThatDoesNotFitIsAWarning) {
  const auto native = tokens_of(run({}, 2, Rows{}));
  EXPECT_EQ(tokens_of(run({}, 2, Rows{65, 1})), native);
  EXPECT_EQ(warnings_,
            std::vector<std::string>{
                "the warm-up with 65 tokens a sequence failed (the KV cache is full: the step "
                "needs 256 more tokens and 128 are free; use a larger --context); its kernels are "
                "compiled when they are needed"});
}

TEST_F(WarmUp, RefusesLengthsThatTheModelDoesNotHave) {
  for (const std::int64_t length : {std::int64_t{0}, std::int64_t{641}}) {
    try {
      run({}, 1, Rows{1, length});
      ADD_FAILURE() << length;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(std::string(error.what()),
                "warmup_seq_lens must be from 1 to 640 (the positions of this model), not " +
                    std::to_string(length));
    }
  }
}

}  // namespace
}  // namespace tessera
