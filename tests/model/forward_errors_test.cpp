// Steps that the forward pass refuses leave no trace.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/forward.h"
#include "tests/always_parallel.h"
#include "tests/io/expect_error.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

using Tokens = std::vector<std::int32_t>;

class RefusedStep : public ::testing::Test {
 protected:
  static constexpr std::int64_t kCachePages = 3;

  // What becomes of two sequences when `refused` runs between their steps.
  template <typename Refused>
  std::vector<float> logits_around(const Refused& refused) {
    KvCache cache(config_, DType::kF32, kCachePages * KvCache::kPageTokens);
    const SequenceId a = cache.add_sequence();
    const SequenceId b = cache.add_sequence();
    const Tokens first = {5, 6, 7};
    const Tokens second = {8, 9};
    const std::vector<Segment> start = {{a, first, 1}, {b, second, 1}};
    forward_.run(start, cache);

    const std::int64_t pages_before = cache.free_pages();
    refused(cache, a, b);
    EXPECT_EQ(cache.length(a), 3);
    EXPECT_EQ(cache.length(b), 2);
    EXPECT_EQ(cache.free_pages(), pages_before);

    const Tokens next = {10, 11};
    const std::vector<Segment> step = {{a, next, 2}, {b, next, 1}};
    std::vector<float> logits;
    const ops::ConstRows rows = forward_.run(step, cache);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      logits.insert(logits.end(), rows.row(r).begin(), rows.row(r).end());
    }
    return logits;
  }

  void expect_refused(const Tokens& for_a, const Tokens& for_b, ErrorCode code,
                      const std::string& sentence) {
    const auto undisturbed = logits_around([](KvCache&, SequenceId, SequenceId) {});
    const auto disturbed = logits_around([&](KvCache& cache, SequenceId a, SequenceId b) {
      const std::vector<Segment> step = {{a, for_a, 1}, {b, for_b, 1}};
      EXPECT_ERROR(forward_.run(step, cache), code, sentence);
    });
    EXPECT_EQ(disturbed, undisturbed);
  }

  std::filesystem::path folder_ = testing::reference_folder("lite");  // vocab 128, 640 positions
  testing::AlwaysParallel executor_{2};
  ModelConfig config_ = ModelConfig::load(folder_);
  ModelWeights weights_ =
      load_weights(folder_, config_, WeightFormat::kF32, KvCacheForm::kLatent, executor_, nullptr);
  ModelKernels kernels_{{}, config_, weights_, executor_};
  ForwardPass forward_{config_, weights_, executor_, kernels_};
};

TEST_F(RefusedStep, UnknownTokenInTheFirstSequence) {
  expect_refused({1, 128}, {1}, ErrorCode::kInvalidArgument,
                 "token id 128 is outside the vocabulary of 128");
}

TEST_F(RefusedStep, UnknownTokenInTheLastSequence) {
  expect_refused({1}, {1, -1}, ErrorCode::kInvalidArgument,
                 "token id -1 is outside the vocabulary of 128");
}

TEST_F(RefusedStep, MorePositionsThanTheModelHas) {
  expect_refused({1}, Tokens(639, 1), ErrorCode::kContextOverflow,
                 "a sequence of 641 tokens is longer than the 640 positions of the model; shorten "
                 "the prompt");
}

TEST_F(RefusedStep, CacheFullForOneSequence) {
  expect_refused(
      {1}, Tokens(200, 1), ErrorCode::kContextOverflow,
      "the KV cache is full: the step needs 192 more tokens and 64 are free; use a larger "
      "--context");
}

TEST_F(RefusedStep, CacheFullForBothTogether) {
  expect_refused(
      Tokens(64, 1), Tokens(64, 1), ErrorCode::kContextOverflow,
      "the KV cache is full: the step needs 128 more tokens and 64 are free; use a larger "
      "--context");
}

TEST_F(RefusedStep, AllPositionsMayBeUsed) {
  KvCache cache(config_, DType::kF32, 640);
  const SequenceId s = cache.add_sequence();
  const Tokens all(640, 1);
  const Segment segment{s, all, 0};
  forward_.run(std::span(&segment, 1), cache);
  EXPECT_EQ(cache.length(s), 640);
}

}  // namespace
}  // namespace tessera
