// How prompts are cut into steps: company changes no prompt's parts where their length matters.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/generator.h"
#include "tests/always_parallel.h"
#include "tests/engine/recording_norm.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

using testing::kRecordingNorm;
using testing::recorded_rows;
using Rows = std::vector<std::int64_t>;

class Prefill : public ::testing::Test {
 protected:
  GenerationResult run(AttentionForm form, const std::vector<std::vector<std::int32_t>>& prompts) {
    recorded_rows.clear();
    ModelKernels kernels({.rms_norm = &kRecordingNorm, .attention = form}, config_, weights_,
                         executor_);
    GenerationOptions options;
    options.max_new_tokens = 8;
    options.sampling.temperature = 0;
    options.warmup_seq_lens = Rows();
    return generate(
        {config_, weights_, nullptr, executor_, kernels, WeightFormat::kBF16, DType::kBF16, {}},
        prompts, options);
  }

  std::vector<std::int32_t> prompt(std::size_t n, std::int32_t first) const {
    std::vector<std::int32_t> tokens(n);
    for (std::size_t i = 0; i < n; ++i) {
      tokens[i] = static_cast<std::int32_t>((13 * i + static_cast<std::size_t>(first)) %
                                            static_cast<std::size_t>(config_.vocab_size));
    }
    return tokens;
  }

  std::filesystem::path folder_ = testing::reference_folder("lite");
  testing::AlwaysParallel executor_{2};
  ModelConfig config_ = ModelConfig::load(folder_);
  ModelWeights weights_ =
      load_weights(folder_, config_, WeightFormat::kBF16, KvCacheForm::kLatent, executor_, nullptr);
};

// Of 512 tokens in a step, 300 are taken: the next 300 wait, 40 go along.
TEST_F(Prefill, ALongPartWaitsForAStepThatHoldsIt) {
  run(AttentionForm::kAuto, {prompt(300, 1), prompt(300, 2), prompt(40, 3)});
  ASSERT_GE(recorded_rows.size(), 3u);
  EXPECT_EQ(recorded_rows[0], 340);
  EXPECT_EQ(recorded_rows[2], 300);  // behind the norm of the rows that give logits
}

TEST_F(Prefill, AbsorbedPartsFillTheSteps) {
  run(AttentionForm::kAbsorbed, {prompt(300, 1), prompt(300, 2), prompt(40, 3)});
  ASSERT_GE(recorded_rows.size(), 3u);
  EXPECT_EQ(recorded_rows[0], 512);
  EXPECT_EQ(recorded_rows[2], 128);
}

TEST_F(Prefill, ChunksEndAtMultiples) {
  run(AttentionForm::kAuto, {prompt(100, 1), prompt(600, 2)});
  // 512 tokens do not fit beside 100; then the rest.
  EXPECT_EQ((Rows{recorded_rows[0], recorded_rows[2]}), (Rows{100, 512}));
}

TEST_F(Prefill, CompanyChangesNoAnswer) {
  const std::vector<std::vector<std::int32_t>> prompts = {prompt(270, 1), prompt(600, 2),
                                                          prompt(300, 5), prompt(30, 9)};
  const GenerationResult together = run(AttentionForm::kAuto, prompts);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const GenerationResult alone = run(AttentionForm::kAuto, {prompts[i]});
    EXPECT_EQ(together.completions[i].token_ids, alone.completions[0].token_ids) << "prompt " << i;
  }
}

}  // namespace
}  // namespace tessera
