// Replayed steps give what eager ones give, to the bit: logits and the whole cache.
#include "model/graph/step_graphs.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/forward.h"
#include "model/kernels.h"
#include "model/weight_layout.h"
#include "model/weights.h"
#include "tests/always_parallel.h"
#include "tests/model/kernel_combinations.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

constexpr std::int64_t kPage = KvCache::kPageTokens;

GraphOptions graphs_on() {
  GraphOptions options;
  options.enabled = true;
  options.strict = true;
  return options;
}

// A model with two caches: one is filled by eager steps, the other by replayed ones.
class Twins {
 public:
  Twins(const std::string& model, WeightFormat format, const KernelOptions& kernels, int threads,
        std::int64_t pages, const GraphOptions& options = graphs_on())
      : executor_(threads),
        config_(ModelConfig::load(testing::reference_folder(model))),
        choice_(choose_kernels(kernels, config_, format, nullptr)),
        weights_(load_weights(testing::reference_folder(model), config_, format, choice_.kv_cache,
                              executor_, nullptr)),
        kernels_(choice_, config_, weights_, executor_,
                 [this](std::string_view sentence) { warnings_.emplace_back(sentence); }),
        forward_(config_, weights_, executor_, kernels_),
        eager_(config_, cache_dtype(format), pages * kPage, choice_.kv_cache),
        replayed_(config_, cache_dtype(format), pages * kPage, choice_.kv_cache),
        graphs_(config_, weights_, executor_, kernels_, replayed_, options) {
    config_.max_positions = pages * kPage;
    for (KvCache* cache : {&eager_, &replayed_}) {
      for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
        const auto bytes = cache->raw_layer(layer);
        std::memset(bytes.data(), 0xff, bytes.size());  // NaN in every element
      }
    }
  }

  SequenceId add_sequence() {
    const SequenceId id = eager_.add_sequence();
    EXPECT_EQ(replayed_.add_sequence(), id);
    lengths_.resize(static_cast<std::size_t>(id) + 1);
    lengths_[static_cast<std::size_t>(id)] = 0;
    return id;
  }
  void remove_sequence(SequenceId id) {
    eager_.remove_sequence(id);
    replayed_.remove_sequence(id);
  }

  // Both caches hold n more tokens of a sequence, by eager steps.
  void prefill(SequenceId id, std::int64_t n) {
    for (KvCache* cache : {&eager_, &replayed_}) {
      std::int64_t done = 0;
      while (done < n) {
        const std::int64_t part = std::min<std::int64_t>(n - done, 128);
        const std::vector<std::int32_t> tokens = next_tokens(id, part, done);
        const Segment segment{id, tokens, 0};
        forward_.run(std::span(&segment, 1), *cache);
        done += part;
      }
    }
    lengths_[static_cast<std::size_t>(id)] += n;
  }

  // A step of the sequences with n tokens each, once eager and once replayed.
  void step(const std::vector<SequenceId>& ids, std::int64_t n = 1, std::int64_t n_logits = 1) {
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<Segment> segments;
    for (const SequenceId id : ids) tokens.push_back(next_tokens(id, n, 0));
    for (std::size_t i = 0; i < ids.size(); ++i) segments.push_back({ids[i], tokens[i], n_logits});
    const ops::ConstRows rows = forward_.run(segments, eager_);
    const std::vector<float> expected(rows.data, rows.data + rows.rows * rows.columns);
    ASSERT_NE(graphs_.captured(count_tokens(segments), count_logits(segments)), nullptr);
    const auto got = graphs_.run(segments);
    ASSERT_TRUE(got.has_value());
    ASSERT_EQ(got->rows * got->columns, std::ssize(expected));
    EXPECT_EQ(std::memcmp(got->data, expected.data(), expected.size() * sizeof(float)), 0)
        << ids.size() << " sequences, " << n << " tokens, at length "
        << lengths_[static_cast<std::size_t>(ids[0])];
    for (const SequenceId id : ids) lengths_[static_cast<std::size_t>(id)] += n;
  }

  // What was kept, and the poison everywhere else.
  void expect_same_caches() {
    for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
      const auto a = eager_.raw_layer(layer);
      const auto b = replayed_.raw_layer(layer);
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0) << "layer " << layer;
    }
  }

  StepGraphs& graphs() { return graphs_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<std::int32_t> next_tokens(SequenceId id, std::int64_t n, std::int64_t done) const {
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = lengths_[static_cast<std::size_t>(id)] + done + i;
      tokens.push_back(static_cast<std::int32_t>((at * 7 + id * 31 + 3) % config_.vocab_size));
    }
    return tokens;
  }

  std::vector<std::string> warnings_;
  testing::AlwaysParallel executor_;
  ModelConfig config_;
  KernelChoice choice_;
  ModelWeights weights_;
  ModelKernels kernels_;
  ForwardPass forward_;
  KvCache eager_;
  KvCache replayed_;
  StepGraphs graphs_;
  std::vector<std::int64_t> lengths_;
};

// Batches, three live of four, two tokens a step, over the end of a page.
void run_batches(Twins& twins, const std::vector<int>& batches = {1, 2, 3, 4, 5, 6, 7, 8}) {
  std::vector<SequenceId> ids;
  for (int i = 0; i < std::max(4, batches.back()); ++i) {
    ids.push_back(twins.add_sequence());
    twins.prefill(ids.back(), kPage - 1 + i);
  }
  for (int round = 0; round < 2; ++round) {
    for (const int n : batches) twins.step({ids.begin(), ids.begin() + n});
  }
  twins.remove_sequence(ids[1]);
  twins.step({ids[0], ids[2], ids[3]});
  twins.step({ids[0]}, 2, 2);
  twins.step({ids[2], ids[3]}, 2, 1);
  twins.expect_same_caches();
}

class EveryFormat : public ::testing::TestWithParam<WeightFormat> {};

TEST_P(EveryFormat, HasTheSameBits) {
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(fmt::format("{} threads", threads));
    Twins twins("lite", GetParam(), {}, threads, 24);
    run_batches(twins);
    EXPECT_THAT(twins.warnings(), ::testing::IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryFormat, ::testing::ValuesIn(kWeightFormats),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(StepGraphs, HaveTheSameBitsWithEveryChoiceOfKernels) {
  for (const KernelOptions& kernels : testing::kernel_combinations()) {
    SCOPED_TRACE(testing::describe(kernels));
    Twins twins("lite", WeightFormat::kBF16, kernels, 2, 24);
    run_batches(twins, {1, 3});
  }
}

TEST(StepGraphs, HaveTheSameBitsForEveryModel) {
  for (const std::string& model : testing::reference_models()) {
    SCOPED_TRACE(model);
    for (const char* form : {"latent", "expanded"}) {
      KernelOptions kernels = baseline_kernels();
      kernels.kv_cache = form;
      Twins twins(model, WeightFormat::kF32, kernels, 2, 24);
      run_batches(twins, {1, 3});
    }
  }
}

// Captured at a short length, replayed past every length at which attention cuts tokens otherwise.
TEST(StepGraphs, CapturedAtAShortLengthServeLongOnes) {
  Twins twins("lite", WeightFormat::kBF16, {}, 2, 80);
  const SequenceId id = twins.add_sequence();
  twins.prefill(id, 1);
  twins.step({id});
  std::int64_t length = 2;
  for (const std::int64_t next : {126, 1022, 4094}) {
    twins.prefill(id, next - length);
    for (int i = 0; i < 4; ++i) twins.step({id});
    length = next + 4;
  }
  twins.expect_same_caches();
  EXPECT_EQ(twins.graphs().report().buckets, std::vector<std::int64_t>{1});
}

TEST(StepGraphs, HaveTheSameBitsHoweverTheyArePlanned) {
  for (const bool reduce_overhead : {false, true}) {
    for (const bool static_shares : {false, true}) {
      for (const bool frozen : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", reduce_overhead, static_shares, frozen));
        GraphOptions options = graphs_on();
        options.reduce_overhead = reduce_overhead;
        options.static_shares = static_shares;
        options.frozen_parameters = frozen;
        Twins twins("lite", WeightFormat::kInt8, {}, 3, 24, options);
        run_batches(twins, {1, 3, 8});
      }
    }
  }
}

TEST(StepGraphs, DoNotServeStepsOutsideTheirBuckets) {
  GraphOptions options = graphs_on();
  options.buckets = {1, 8};
  Twins twins("lite", WeightFormat::kF32, {}, 1, 24, options);
  EXPECT_NE(twins.graphs().captured(1, 1), nullptr);
  EXPECT_EQ(twins.graphs().captured(3, 3), nullptr);  // whose kernels are others than those of 8
  EXPECT_NE(twins.graphs().captured(5, 5), nullptr);
  EXPECT_EQ(twins.graphs().captured(9, 1), nullptr);
  options.buckets = {2, 2};
  EXPECT_THROW(Twins("lite", WeightFormat::kF32, {}, 1, 24, options), Error);
}

TEST(StepGraphs, AreRecordedWhenAKindOfStepComesAgain) {
  Twins twins("lite", WeightFormat::kF32, {}, 1, 24);
  const std::vector<std::int32_t> tokens = {3};
  const Segment segment{twins.add_sequence(), tokens, 1};
  EXPECT_FALSE(twins.graphs().run(std::span(&segment, 1)).has_value());
  EXPECT_TRUE(twins.graphs().run(std::span(&segment, 1)).has_value());
}

TEST(StepGraphs, TakeMuchLessMemoryThanTheirIntermediates) {
  Twins twins("lite", WeightFormat::kF32, {}, 2, 24);
  ASSERT_NE(twins.graphs().captured(4, 4), nullptr);
  const GraphReport& report = twins.graphs().report();
  EXPECT_LE(static_cast<double>(report.arena_bytes), 0.6 * static_cast<double>(report.eager_bytes));
  EXPECT_LT(report.phases, report.ops);
}

TEST(StepGraphs, SayWhichOperatorCannotBeRecordedAndLeaveTheStepToTheCaller) {
  KernelOptions kernels;
  kernels.rms_norm = "reference";
  GraphOptions options = graphs_on();
  options.strict = false;
  Twins twins("lite", WeightFormat::kF32, kernels, 1, 24, options);
  EXPECT_EQ(twins.graphs().captured(1, 1), nullptr);
  EXPECT_EQ(twins.graphs().captured(1, 1), nullptr);
  EXPECT_EQ(twins.graphs().report().backend, "eager");
  EXPECT_THAT(twins.warnings(), ::testing::ElementsAre(
                                    "the step could not be captured as a graph (rms_norm reference "
                                    "cannot be recorded); it runs eagerly"));
  options.strict = true;
  Twins strict("lite", WeightFormat::kF32, kernels, 1, 24, options);
  EXPECT_THROW(strict.graphs().captured(1, 1), Error);
}

}  // namespace
}  // namespace tessera
