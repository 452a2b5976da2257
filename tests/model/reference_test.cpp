// The forward pass against transformers' values (tests/data/reference).
#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/forward.h"
#include "tests/always_parallel.h"
#include "tests/compare.h"
#include "tests/model/reference_batch.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

using testing::close;
using testing::compare;
using testing::reference_folder;
using testing::ReferenceValues;

// A reference model in memory, with one sequence after another run through it.
struct Loaded {
  Loaded(const std::string& name, DType dtype, int threads = 2)
      : executor(threads),
        config(ModelConfig::load(reference_folder(name))),
        weights(load_weights(reference_folder(name), config, weight_format(dtype),
                             KvCacheForm::kLatent, executor, nullptr)),
        dtype(dtype),
        kernels({}, config, weights, executor),
        forward(config, weights, executor, kernels) {}

  KvCache cache(std::int64_t tokens) const {
    return KvCache(config, dtype == DType::kBF16 ? DType::kBF16 : DType::kF32, tokens);
  }

  // Logits of all positions, the sequence read in chunks.
  std::vector<float> logits(std::span<const std::int32_t> ids, std::size_t chunk,
                            const LayerObserver& observe = nullptr) {
    KvCache kv = cache(std::ssize(ids));
    const SequenceId sequence = kv.add_sequence();
    std::vector<float> all;
    for (std::size_t first = 0; first < ids.size(); first += chunk) {
      const auto part = ids.subspan(first, std::min(chunk, ids.size() - first));
      const Segment segment{sequence, part, std::ssize(part)};
      const ops::ConstRows rows = forward.run(std::span(&segment, 1), kv, observe);
      for (std::int64_t r = 0; r < rows.rows; ++r) {
        all.insert(all.end(), rows.row(r).begin(), rows.row(r).end());
      }
    }
    return all;
  }

  testing::AlwaysParallel executor;
  ModelConfig config;
  ModelWeights weights;
  DType dtype;
  ModelKernels kernels;
  ForwardPass forward;
};

std::vector<std::size_t> best_tokens(std::span<const float> logits, std::size_t vocab) {
  std::vector<std::size_t> best;
  for (std::size_t at = 0; at < logits.size(); at += vocab) {
    const auto row = logits.subspan(at, vocab);
    best.push_back(static_cast<std::size_t>(std::ranges::max_element(row) - row.begin()));
  }
  return best;
}

class ReferenceModel : public ::testing::TestWithParam<std::string> {};

TEST_P(ReferenceModel, LogitsAndLayersInFp32) {
  const ReferenceValues expected(GetParam());
  Loaded model(GetParam(), DType::kF32);
  std::int64_t layers_seen = 0;
  const auto logits = model.logits(
      expected.ids("ids"), 1000, [&](std::int64_t layer, const ops::ConstRows& hidden) {
        EXPECT_EQ(layer, layers_seen++);
        const std::span all(hidden.data, static_cast<std::size_t>(hidden.rows * hidden.columns));
        EXPECT_TRUE(close(all, expected.floats("fp32.hidden." + std::to_string(layer)), 1e-4))
            << "layer " << layer;
      });
  EXPECT_EQ(layers_seen, model.config.n_layers);
  EXPECT_TRUE(close(logits, expected.floats("fp32.logits"), 1e-4));
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  EXPECT_EQ(best_tokens(logits, vocab), best_tokens(expected.floats("fp32.logits"), vocab));
}

TEST_P(ReferenceModel, DecodeAfterPrefill) {
  const ReferenceValues expected(GetParam());
  const std::vector<std::int32_t> ids = expected.ids("ids");
  const std::size_t n_prefill = expected.number("prefill_tokens");
  Loaded model(GetParam(), DType::kF32);
  KvCache cache = model.cache(std::ssize(ids));
  const SequenceId sequence = cache.add_sequence();

  std::vector<float> steps;
  const Segment prefill{sequence, std::span(ids).first(n_prefill), 0};
  EXPECT_EQ(model.forward.run(std::span(&prefill, 1), cache).rows, 0);
  for (std::size_t i = n_prefill; i < ids.size(); ++i) {
    const Segment step{sequence, std::span(ids).subspan(i, 1), 1};
    const auto row = model.forward.run(std::span(&step, 1), cache).row(0);
    steps.insert(steps.end(), row.begin(), row.end());
  }
  EXPECT_TRUE(close(steps, expected.floats("fp32.decode_logits"), 1e-4));
}

TEST_P(ReferenceModel, LogitsInBf16) {
  const ReferenceValues expected(GetParam());
  Loaded model(GetParam(), DType::kBF16);
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  const auto logits = model.logits(expected.ids("ids"), 1000);
  const auto wanted = expected.floats("bf16.logits");
  ASSERT_EQ(logits.size(), wanted.size());
  for (std::size_t at = 0; at < wanted.size(); at += vocab) {
    const auto d =
        compare(std::span(logits).subspan(at, vocab), std::span(wanted).subspan(at, vocab));
    EXPECT_EQ(d.not_finite, 0u);
    EXPECT_GE(d.cosine, 0.999) << "position " << at / vocab;
  }
}

TEST_P(ReferenceModel, LogitsInFp16AreCloseToFp32) {
  const ReferenceValues expected(GetParam());
  Loaded model(GetParam(), DType::kF16);
  // bf16 weights of this size are exact in fp16, or lose a bit at the very small ones.
  EXPECT_TRUE(close(model.logits(expected.ids("ids"), 1000), expected.floats("fp32.logits"), 2e-2));
}

TEST_P(ReferenceModel, SameBitsForEveryThreadCount) {
  const std::vector<std::int32_t> ids = ReferenceValues(GetParam()).ids("ids");
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto one = Loaded(GetParam(), dtype, 1).logits(ids, 5);
    for (int threads : {2, 3}) {
      const auto many = Loaded(GetParam(), dtype, threads).logits(ids, 5);
      ASSERT_EQ(one.size(), many.size());
      EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0)
          << threads << " threads, " << to_string(dtype);
    }
  }
}

TEST_P(ReferenceModel, ChunksChangeNothingThatMatters) {
  const ReferenceValues expected(GetParam());
  Loaded model(GetParam(), DType::kF32);
  for (std::size_t chunk : {1, 7, 64}) {
    const auto logits = model.logits(expected.ids("ids"), chunk);
    const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
    EXPECT_TRUE(close(logits, expected.floats("fp32.logits"), 1e-4)) << "chunks of " << chunk;
    EXPECT_EQ(best_tokens(logits, vocab), best_tokens(expected.floats("fp32.logits"), vocab));
  }
}

TEST_P(ReferenceModel, GreedyContinuation) {
  const ReferenceValues expected(GetParam());
  const std::vector<std::int32_t> all = expected.ids("ids");
  const std::vector<std::int32_t> wanted = expected.ids("greedy_ids");
  const std::size_t n_prompt = expected.number("greedy_prompt_tokens");
  for (std::size_t chunk : {1, 7, 64}) {
    Loaded model(GetParam(), DType::kF32);
    KvCache cache = model.cache(std::ssize(wanted) + static_cast<std::int64_t>(n_prompt));
    const SequenceId sequence = cache.add_sequence();
    std::vector<std::int32_t> next(all.begin(),
                                   all.begin() + static_cast<std::ptrdiff_t>(n_prompt));
    std::vector<std::int32_t> got;
    while (got.size() < wanted.size()) {
      ops::ConstRows logits;
      for (std::size_t first = 0; first < next.size(); first += chunk) {
        const Segment part{sequence,
                           std::span(next).subspan(first, std::min(chunk, next.size() - first)), 1};
        logits = model.forward.run(std::span(&part, 1), cache);
      }
      const auto best = std::ranges::max_element(logits.row(0)) - logits.row(0).begin();
      got.push_back(static_cast<std::int32_t>(best));
      next = {got.back()};
    }
    EXPECT_EQ(got, wanted) << "chunks of " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceModel, ::testing::ValuesIn(testing::reference_models()),
                         [](const auto& parameter) { return parameter.param; });

class BatchOfUnequalLengths : public ::testing::TestWithParam<std::string> {};

// Four sequences in one batch, in chunks, with everything in the cache that does not belong to them
// poisoned.
TEST_P(BatchOfUnequalLengths, EqualsEachAlone) {
  const ReferenceValues expected(GetParam());
  for (std::size_t chunk : {3, 16, 64}) {
    Loaded model(GetParam(), DType::kF32);
    KvCache cache = model.cache(testing::kReferenceBatchPages * KvCache::kPageTokens);
    testing::expect_reference_batch(expected, model.forward, cache, model.config.n_layers, chunk);
  }
}

INSTANTIATE_TEST_SUITE_P(All, BatchOfUnequalLengths, ::testing::Values("lite", "full"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace tessera
