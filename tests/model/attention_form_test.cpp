// Attention in expanded form over a latent cache: the forward pass against transformers' values,
// which chunks take which form, and what has the same bits.
#include "model/attention_form.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/forward.h"
#include "model/graph/step_graphs.h"
#include "model/step_cost.h"
#include "model/weight_layout.h"
#include "tests/always_parallel.h"
#include "tests/compare.h"
#include "tests/io/expect_error.h"
#include "tests/model/reference_batch.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

using testing::close;
using testing::compare;
using testing::ReferenceValues;
using Tokens = std::vector<std::int32_t>;

// A reference model with a form of attention.
struct Loaded {
  Loaded(const std::string& name, WeightFormat format, AttentionForm form, int threads = 2)
      : executor(threads),
        config(ModelConfig::load(testing::reference_folder(name))),
        format(format),
        weights(load_weights(testing::reference_folder(name), config, format, KvCacheForm::kLatent,
                             executor, nullptr)),
        kernels({.attention = form}, config, weights, executor),
        forward(config, weights, executor, kernels) {}

  KvCache cache(std::int64_t tokens) const { return KvCache(config, cache_dtype(format), tokens); }

  Tokens tokens(std::size_t n) const {
    Tokens all(n);
    for (std::size_t i = 0; i < n; ++i) {
      all[i] = static_cast<std::int32_t>((7 * i + 3) % static_cast<std::size_t>(config.vocab_size));
    }
    return all;
  }

  // The logits of all positions, read in parts of these lengths. Beside the first of them stand
  // sequences of the lengths in `company`, before it and behind it in turn.
  std::vector<float> logits(const Tokens& ids, const std::vector<std::size_t>& parts,
                            const std::vector<std::size_t>& company = {}) {
    KvCache kv = cache(64 * (std::ssize(company) + 1) * 10);
    std::vector<Tokens> others;
    for (std::size_t n : company) others.emplace_back(n, static_cast<std::int32_t>(n % 50));
    const SequenceId mine = kv.add_sequence();
    std::vector<float> all;
    std::size_t first = 0;
    for (std::size_t n : parts) {
      std::vector<Segment> step = {
          {mine, std::span(ids).subspan(first, n), static_cast<std::int64_t>(n)}};
      for (std::size_t c = 0; first == 0 && c < others.size(); ++c) {
        step.insert(c % 2 == 0 ? step.begin() : step.end(), {kv.add_sequence(), others[c], 0});
      }
      const ops::ConstRows rows = forward.run(step, kv);
      for (std::int64_t r = 0; r < rows.rows; ++r) {
        all.insert(all.end(), rows.row(r).begin(), rows.row(r).end());
      }
      first += n;
    }
    EXPECT_EQ(first, ids.size());
    return all;
  }

  testing::AlwaysParallel executor;
  ModelConfig config;
  WeightFormat format;
  ModelWeights weights;
  ModelKernels kernels;
  ForwardPass forward;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class ExpandedForm : public ::testing::TestWithParam<std::string> {};

TEST_P(ExpandedForm, LogitsInFp32) {
  const ReferenceValues expected(GetParam());
  Loaded model(GetParam(), WeightFormat::kF32, AttentionForm::kExpanded);
  const Tokens ids = expected.ids("ids");
  for (const std::vector<std::size_t>& parts :
       {std::vector<std::size_t>{44}, {15, 29}, {1, 11, 32}, {33, 1, 10}}) {
    EXPECT_TRUE(close(model.logits(ids, parts), expected.floats("fp32.logits"), 1e-4));
  }
}

TEST_P(ExpandedForm, LogitsInBf16) {
  const ReferenceValues expected(GetParam());
  Loaded model(GetParam(), WeightFormat::kBF16, AttentionForm::kExpanded);
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  const auto logits = model.logits(expected.ids("ids"), {11, 33});
  const auto wanted = expected.floats("bf16.logits");
  for (std::size_t at = 0; at < wanted.size(); at += vocab) {
    const auto d =
        compare(std::span(logits).subspan(at, vocab), std::span(wanted).subspan(at, vocab));
    EXPECT_EQ(d.not_finite, 0u);
    EXPECT_GE(d.cosine, 0.999) << "position " << at / vocab;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExpandedForm, ::testing::ValuesIn(testing::reference_models()),
                         [](const auto& info) { return info.param; });

// In pages that are not in order, everything else NaN; short sequences in absorbed form beside.
TEST(ExpandedFormBatch, EachSequenceHasTheLogitsOfItself) {
  const ReferenceValues expected("lite");
  Loaded model("lite", WeightFormat::kF32, AttentionForm::kExpanded);
  for (std::size_t chunk : {40, 23, 16}) {
    KvCache cache = model.cache(testing::kReferenceBatchPages * KvCache::kPageTokens);
    testing::expect_reference_batch(expected, model.forward, cache, model.config.n_layers, chunk);
  }
}

class ExpandedBits : public ::testing::TestWithParam<WeightFormat> {};

// Parts of 9 tokens and more: all in one form.
TEST_P(ExpandedBits, AreTheSameForEveryCutCompanyAndThreadCount) {
  using Lengths = std::vector<std::size_t>;
  Loaded one("lite", GetParam(), AttentionForm::kExpanded, 1);
  const Tokens ids = one.tokens(290);
  const std::vector<float> expected = one.logits(ids, {290});
  for (const auto& [threads, parts, company] : {std::tuple{2, Lengths{290}, Lengths{}},
                                                {3, Lengths{255, 35}, Lengths{1, 30, 5, 12}},
                                                {2, Lengths{9, 17, 264}, Lengths{8, 9}},
                                                {2, Lengths{100, 100, 90}, Lengths{290, 3, 2}}}) {
    Loaded model("lite", GetParam(), AttentionForm::kExpanded, threads);
    EXPECT_TRUE(same_bits(model.logits(ids, parts, company), expected))
        << threads << " threads, parts of " << parts.front();
  }
}

// Each part has the bits of its own form, whatever that of others.
TEST_P(ExpandedBits, OfAutoAreThoseOfTheFormThatItTakes) {
  Loaded absorbed("lite", GetParam(), AttentionForm::kAbsorbed);
  Loaded expanded("lite", GetParam(), AttentionForm::kExpanded);
  Loaded automatic("lite", GetParam(), AttentionForm::kAuto);
  const auto least = static_cast<std::size_t>(kExpandedTokens);
  const Tokens ids = automatic.tokens(least);
  const std::vector<float> as_absorbed = absorbed.logits(ids, {least});
  const std::vector<float> as_expanded = expanded.logits(ids, {least});
  EXPECT_FALSE(same_bits(as_absorbed, as_expanded));
  if (GetParam() == WeightFormat::kF32) {
    EXPECT_TRUE(close(as_absorbed, as_expanded, 1e-4));
  } else {
    EXPECT_GE(compare(as_absorbed, as_expanded).cosine, 0.999);
  }
  EXPECT_TRUE(same_bits(automatic.logits(ids, {least}), as_expanded));
  EXPECT_TRUE(same_bits(automatic.logits(ids, {least - 1, 1}), as_absorbed));
  EXPECT_TRUE(same_bits(automatic.logits(ids, {least}, {7, 40, 11}), as_expanded));
  EXPECT_TRUE(same_bits(automatic.logits(ids, {100, least - 100}, {least, 40}), as_absorbed));
}

// A step of few tokens is absorbed, whatever is asked for.
TEST_P(ExpandedBits, DecodeStepsAreAbsorbed) {
  Loaded absorbed("lite", GetParam(), AttentionForm::kAbsorbed);
  Loaded expanded("lite", GetParam(), AttentionForm::kExpanded);
  const Tokens ids = absorbed.tokens(20);
  EXPECT_TRUE(same_bits(expanded.logits(ids, {8, 1, 3, 8}), absorbed.logits(ids, {20})));
}

INSTANTIATE_TEST_SUITE_P(All, ExpandedBits,
                         ::testing::Values(WeightFormat::kF32, WeightFormat::kBF16,
                                           WeightFormat::kInt4),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// Graphs attend in absorbed form: a step that would not is left to the forward pass.
TEST(AttentionFormOfGraphs, ExpandedStepsAreNotReplayed) {
  for (const AttentionForm form : {AttentionForm::kAuto, AttentionForm::kExpanded}) {
    Loaded model("lite", WeightFormat::kF32, form);
    KvCache cache = model.cache(128);
    StepGraphs graphs(model.config, model.weights, model.executor, model.kernels, cache,
                      {.enabled = true, .buckets = {16}});
    const Tokens ids = model.tokens(12);
    bool replayed = false;
    for (int i = 0; i < 3; ++i) {
      const Segment segment{cache.add_sequence(), ids, 12};
      replayed = graphs.run(std::span(&segment, 1)).has_value();
      cache.remove_sequence(segment.sequence);
    }
    EXPECT_EQ(replayed, form == AttentionForm::kAuto);
  }
}

TEST(AttentionFormChoice, NamesAreUnderstood) {
  for (const AttentionForm form : kAttentionForms) {
    EXPECT_EQ(attention_form_from_string(to_string(form)), form);
  }
  const ModelConfig config = ModelConfig::load(testing::reference_folder("lite"));
  const auto choose = [&](const KernelOptions& options) {
    return choose_kernels(options, config, WeightFormat::kF32, nullptr).attention;
  };
  EXPECT_EQ(choose({}), AttentionForm::kAuto);
  EXPECT_EQ(choose({.attention_form = "expanded"}), AttentionForm::kExpanded);
  EXPECT_EQ(choose({.kv_cache = "expanded", .attention_form = "expanded"}),
            AttentionForm::kExpanded);
  EXPECT_ERROR(choose({.attention_form = "latent"}), ErrorCode::kInvalidArgument,
               "there is no form \"latent\" of attention; choose one of auto, absorbed, expanded");
  EXPECT_ERROR(choose({.kv_cache = "expanded", .attention_form = "absorbed"}),
               ErrorCode::kInvalidArgument,
               "attention in absorbed form needs a latent KV cache, and this one is expanded; "
               "leave out --attention-form or choose --kv-cache latent");
}

TEST(AttentionFormChoice, AnExpandedCacheHasOneForm) {
  Loaded model("lite", WeightFormat::kF32, AttentionForm::kAuto);
  EXPECT_FALSE(model.kernels.expands(kExpandedTokens - 1));
  EXPECT_TRUE(model.kernels.expands(kExpandedTokens));
  const ModelKernels expanded({.kv_cache = KvCacheForm::kExpanded}, model.config, model.weights,
                              model.executor);
  EXPECT_FALSE(expanded.expands(100000));
}

// By hand: 10 new tokens behind 20.
TEST(AttentionFormCost, CountsWhatEachFormComputes) {
  Loaded model("lite", WeightFormat::kF32, AttentionForm::kAuto);
  const ModelConfig& c = model.config;
  const KvCache cache = model.cache(64);
  const auto cost = [&](bool expanded) {
    const SegmentSize segment{20, 10, 1, expanded};
    return step_cost(c, model.weights, cache, std::span(&segment, 1), 0);
  };
  const auto layers = static_cast<double>(c.n_layers * c.n_heads);
  const double pairs = 10 * 20 + 55;
  const auto rank = static_cast<double>(c.kv_lora_rank);
  const auto key_and_value = static_cast<double>(c.qk_nope_dim + c.v_dim);
  StepCost absorbed = cost(false);
  StepCost expanded = cost(true);
  EXPECT_EQ(absorbed.of(ops::StepPart::kAttention).all_operations(),
            2 * layers * pairs * static_cast<double>(2 * c.kv_lora_rank + c.qk_rope_dim));
  EXPECT_EQ(absorbed.of(ops::StepPart::kAbsorb).all_operations(),
            2 * layers * 10 * rank * key_and_value);
  EXPECT_EQ(expanded.of(ops::StepPart::kAttention).all_operations(),
            2 * layers * pairs * static_cast<double>(c.qk_dim() + c.v_dim));
  EXPECT_EQ(expanded.of(ops::StepPart::kAbsorb).all_operations(),
            2 * layers * 30 * rank * key_and_value);
}

}  // namespace
}  // namespace tessera
