// The forward pass with every choice of kernels, against transformers' values.
#include "model/kernels.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/forward.h"
#include "model/weight_layout.h"
#include "tests/always_parallel.h"
#include "tests/compare.h"
#include "tests/io/expect_error.h"
#include "tests/model/kernel_combinations.h"
#include "tests/model/reference_batch.h"
#include "tests/model/reference_data.h"

namespace tessera {
namespace {

using testing::close;
using testing::compare;
using testing::describe;
using testing::reference_folder;
using testing::ReferenceValues;
using Warnings = std::vector<std::string>;

// A reference model in memory.
struct Loaded {
  Loaded(const std::string& name, DType dtype, int threads = 2)
      : executor(threads),
        config(ModelConfig::load(reference_folder(name))),
        latent(load(name, weight_format(dtype), KvCacheForm::kLatent)),
        expanded(load(name, weight_format(dtype), KvCacheForm::kExpanded)),
        format(weight_format(dtype)) {}

  ModelWeights load(const std::string& name, WeightFormat as, KvCacheForm form) {
    return load_weights(reference_folder(name), config, as, form, executor, nullptr);
  }
  const ModelWeights& weights(KvCacheForm form) const {
    return form == KvCacheForm::kLatent ? latent : expanded;
  }

  testing::AlwaysParallel executor;
  ModelConfig config;
  ModelWeights latent, expanded;
  WeightFormat format;
};

// The model with one choice of kernels.
struct WithKernels {
  WithKernels(Loaded& model, const KernelChoice& choice)
      : model(model),
        kernels(choice, model.config, model.weights(choice.kv_cache), model.executor, recorder()),
        forward(model.config, model.weights(choice.kv_cache), model.executor, kernels) {}
  WithKernels(Loaded& model, const KernelOptions& options)
      : WithKernels(model,
                    choose_kernels(options, model.config, model.format, [](std::string_view) {})) {
    choose_kernels(options, model.config, model.format, recorder());
  }

  WarnFn recorder() {
    return [this](std::string_view sentence) { warnings.emplace_back(sentence); };
  }
  KvCache cache(std::int64_t tokens) const {
    return KvCache(model.config, cache_dtype(model.format), tokens, kernels.kv_cache());
  }

  // Logits of all positions, the sequence read in chunks.
  std::vector<float> logits(std::span<const std::int32_t> ids, std::size_t chunk) {
    KvCache kv = cache(std::ssize(ids));
    const SequenceId sequence = kv.add_sequence();
    std::vector<float> all;
    for (std::size_t first = 0; first < ids.size(); first += chunk) {
      const auto part = ids.subspan(first, std::min(chunk, ids.size() - first));
      const Segment segment{sequence, part, std::ssize(part)};
      const ops::ConstRows rows = forward.run(std::span(&segment, 1), kv);
      for (std::int64_t r = 0; r < rows.rows; ++r) {
        all.insert(all.end(), rows.row(r).begin(), rows.row(r).end());
      }
    }
    return all;
  }

  Loaded& model;
  Warnings warnings;
  ModelKernels kernels;
  ForwardPass forward;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class KernelsOfModel : public ::testing::TestWithParam<std::string> {
 protected:
  // What a fused prolog cannot do is said once, and only where it was asked for.
  static void expect_warnings(const WithKernels& run, const KernelOptions& options) {
    const bool wants_fusion = options.mla_prolog != "native" && options.mla_prolog != "auto";
    EXPECT_EQ(run.warnings.size(), run.model.config.attention_bias && wants_fusion ? 1u : 0u)
        << ::testing::PrintToString(run.warnings);
  }
};

TEST_P(KernelsOfModel, LogitsInFp32) {
  const ReferenceValues expected(GetParam());
  const auto ids = expected.ids("ids");
  Loaded model(GetParam(), DType::kF32);
  for (const KernelOptions& options : testing::kernel_combinations()) {
    SCOPED_TRACE(describe(options));
    WithKernels run(model, options);
    EXPECT_TRUE(close(run.logits(ids, 1000), expected.floats("fp32.logits"), 1e-4));
    expect_warnings(run, options);
  }
}

TEST_P(KernelsOfModel, ChunksChangeNothingThatMatters) {
  const ReferenceValues expected(GetParam());
  const auto ids = expected.ids("ids");
  Loaded model(GetParam(), DType::kF32);
  for (const KernelOptions& options : testing::fast_combinations()) {
    WithKernels run(model, options);
    for (std::size_t chunk : {1, 2, 3, 7}) {
      EXPECT_TRUE(close(run.logits(ids, chunk), expected.floats("fp32.logits"), 1e-4))
          << describe(options) << ", chunks of " << chunk;
    }
  }
}

TEST_P(KernelsOfModel, LogitsInBf16) {
  const ReferenceValues expected(GetParam());
  const auto ids = expected.ids("ids");
  const auto wanted = expected.floats("bf16.logits");
  Loaded model(GetParam(), DType::kBF16);
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  for (const KernelOptions& options : testing::kernel_combinations()) {
    SCOPED_TRACE(describe(options));
    WithKernels run(model, options);
    const auto logits = run.logits(ids, 1000);
    ASSERT_EQ(logits.size(), wanted.size());
    for (std::size_t at = 0; at < wanted.size(); at += vocab) {
      const auto d =
          compare(std::span(logits).subspan(at, vocab), std::span(wanted).subspan(at, vocab));
      EXPECT_EQ(d.not_finite, 0u);
      EXPECT_GE(d.cosine, 0.999) << "position " << at / vocab;
    }
    expect_warnings(run, options);
  }
}

TEST_P(KernelsOfModel, LogitsInFp16AreCloseToFp32) {
  const ReferenceValues expected(GetParam());
  Loaded model(GetParam(), DType::kF16);
  for (const KernelOptions& options : testing::fast_combinations()) {
    SCOPED_TRACE(describe(options));
    WithKernels run(model, options);
    EXPECT_TRUE(close(run.logits(expected.ids("ids"), 7), expected.floats("fp32.logits"), 2e-2));
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelsOfModel, ::testing::ValuesIn(testing::reference_models()),
                         [](const auto& parameter) { return parameter.param; });

class ThreadsWithKernels : public ::testing::TestWithParam<std::string> {};

TEST_P(ThreadsWithKernels, SameBitsForEveryThreadCount) {
  const auto ids = ReferenceValues(GetParam()).ids("ids");
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(to_string(dtype));
    Loaded one(GetParam(), dtype, 1);
    Loaded two(GetParam(), dtype, 2);
    Loaded three(GetParam(), dtype, 3);
    for (const KernelOptions& options : testing::fast_combinations()) {
      const auto expected = WithKernels(one, options).logits(ids, 5);
      EXPECT_TRUE(same_bits(WithKernels(two, options).logits(ids, 5), expected))
          << describe(options);
      EXPECT_TRUE(same_bits(WithKernels(three, options).logits(ids, 5), expected))
          << describe(options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ThreadsWithKernels,
                         ::testing::Values("lite", "full", "odd_dims", "attention_bias"),
                         [](const auto& parameter) { return std::string(parameter.param); });

class BatchWithKernels : public ::testing::TestWithParam<std::string> {};

// Four sequences in one batch. Nothing reads what does not belong to them, and nothing writes it.
TEST_P(BatchWithKernels, EqualsEachAloneAndLeavesTheRestPoisoned) {
  const ReferenceValues expected(GetParam());
  Loaded model(GetParam(), DType::kF32);
  const ModelConfig& c = model.config;
  for (const KernelOptions& options : testing::kernel_combinations()) {
    SCOPED_TRACE(describe(options));
    WithKernels run(model, options);
    KvCache cache = run.cache(testing::kReferenceBatchPages * KvCache::kPageTokens);
    const std::size_t n_tokens =
        testing::expect_reference_batch(expected, run.forward, cache, c.n_layers, 7);

    const std::int64_t per_token = cache.form() == KvCacheForm::kLatent
                                       ? c.kv_lora_rank + c.qk_rope_dim
                                       : c.n_heads * (c.qk_nope_dim + c.v_dim) + c.qk_rope_dim;
    for (std::int64_t layer = 0; layer < c.n_layers; ++layer) {
      const auto raw = cache.raw_layer(layer);
      std::vector<std::uint32_t> elements(raw.size() / sizeof(std::uint32_t));
      std::memcpy(elements.data(), raw.data(), raw.size());
      EXPECT_EQ(std::ssize(elements) - std::ranges::count(elements, 0xffffffffu),
                static_cast<std::int64_t>(n_tokens) * per_token)
          << "layer " << layer;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BatchWithKernels, ::testing::Values("lite", "full"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// Implementations that cannot run.

[[noreturn]] void fail_to_compile() {
  throw Error(ErrorCode::kCompiler, "no code for this CPU");
}

std::string nothing_unsupported(std::int64_t, std::int64_t) {
  return {};
}

constexpr ops::RmsNormImplementation kFailingNorm = {
    "failing", nothing_unsupported,
    [](const ops::ConstRows&, const float*, float, const ops::Rows&, ops::Executor&) {
      fail_to_compile();
    }};

constexpr ops::RmsNormImplementation kNormOfOddRows = {
    "odd_rows",
    [](std::int64_t rows, std::int64_t) -> std::string {
      return rows % 2 == 1 ? "" : "needs an odd number of rows";
    },
    [](const ops::ConstRows& x, const float* weight, float eps, const ops::Rows& y,
       ops::Executor& executor) { ops::rms_norm(x, weight, eps, y, executor); }};

constexpr ops::RopeImplementation kFailingRope = {
    "failing", [](std::int64_t, ops::RopeLayout) { return std::string(); },
    [](const ops::Heads&, const ops::ConstRows&, const ops::ConstRows&, ops::RopeLayout,
       ops::Executor&) { fail_to_compile(); }};

struct FailingProlog : ops::MlaProlog {
  void run(const ops::MlaPrologCall&, ops::Executor&) const override { fail_to_compile(); }
};

constexpr auto kSupportsAll = [](const ops::MlaPrologWeights&, const ops::MlaPrologCall&) {
  return std::string();
};

constexpr ops::MlaPrologImplementation kFailingToRun = {
    "failing", kSupportsAll,
    [](const ops::MlaPrologWeights&, ops::Executor&) -> std::unique_ptr<ops::MlaProlog> {
      return std::make_unique<FailingProlog>();
    }};

constexpr ops::MlaPrologImplementation kFailingToPack = {
    "failing", kSupportsAll,
    [](const ops::MlaPrologWeights&, ops::Executor&) -> std::unique_ptr<ops::MlaProlog> {
      fail_to_compile();
    }};

class FailingKernels : public ::testing::Test {
 protected:
  // Runs with `choice`: the native bits come out, whichever kernel fails.
  KernelNames run(const KernelChoice& choice, std::size_t chunk = 3) {
    WithKernels native(model_, KernelChoice{.kv_cache = choice.kv_cache});
    WithKernels failing(model_, choice);
    EXPECT_TRUE(same_bits(failing.logits(ids_, chunk), native.logits(ids_, chunk)));
    EXPECT_EQ(native.warnings, Warnings{});
    warnings_ = failing.warnings;
    return failing.kernels.names();
  }

  std::vector<std::int32_t> ids_ = ReferenceValues("lite").ids("ids");
  Loaded model_{"lite", DType::kF32};
  Warnings warnings_;
};

TEST_F(FailingKernels, ANormIsReplacedWithOneWarning) {
  EXPECT_EQ(run({.rms_norm = &kFailingNorm}).rms_norm, "native");
  EXPECT_EQ(warnings_, Warnings{"rms_norm failing failed (no code for this CPU); the native "
                                "operators run instead"});
}

TEST_F(FailingKernels, ARotationIsReplacedWithOneWarning) {
  EXPECT_EQ(run({.rope = &kFailingRope}).rope, "native");
  EXPECT_EQ(warnings_, Warnings{"rope failing failed (no code for this CPU); the native operators "
                                "run instead"});
}

TEST_F(FailingKernels, APrologIsReplacedInBothFormsOfTheCache) {
  for (const ops::MlaPrologImplementation* prolog : {&kFailingToRun, &kFailingToPack}) {
    for (const KvCacheForm form : {KvCacheForm::kLatent, KvCacheForm::kExpanded}) {
      EXPECT_EQ(run({.mla_prolog = prolog, .kv_cache = form}).mla_prolog, "native");
      EXPECT_EQ(warnings_, Warnings{"mla_prolog failing failed (no code for this CPU); the native "
                                    "operators run instead"});
    }
  }
}

TEST_F(FailingKernels, WhatIsUnsupportedRunsNativelyAndTheRestAsChosen) {
  EXPECT_EQ(run({.rms_norm = &kNormOfOddRows}, 4).rms_norm, "native");
  EXPECT_EQ(warnings_, Warnings{"rms_norm odd_rows needs an odd number of rows; the native "
                                "operators run instead"});
  ids_.resize(11);  // steps of 4, 4 and 3 rows
  EXPECT_EQ(run({.rms_norm = &kNormOfOddRows}, 4).rms_norm, "odd_rows+native");
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(run({.rms_norm = &kNormOfOddRows}, 1).rms_norm, "odd_rows");
  EXPECT_EQ(warnings_, Warnings{});
}

// Choosing by name.

KernelChoice choice_of(const KernelOptions& options, const std::string& model = "lite") {
  return choose_kernels(options, ModelConfig::load(reference_folder(model)), WeightFormat::kBF16,
                        nullptr);
}

TEST(ChooseKernels, TheCacheIsWhatThePrologWrites) {
  EXPECT_EQ(choice_of({.mla_prolog = "latent"}).kv_cache, KvCacheForm::kLatent);
  EXPECT_EQ(choice_of({.mla_prolog = "fused"}).kv_cache, KvCacheForm::kExpanded);
  EXPECT_EQ(choice_of({.mla_prolog = "hybrid"}).kv_cache, KvCacheForm::kExpanded);
  EXPECT_EQ(choice_of({.mla_prolog = "native"}).kv_cache, KvCacheForm::kLatent);
  EXPECT_EQ(choice_of({.mla_prolog = "native", .kv_cache = "expanded"}).kv_cache,
            KvCacheForm::kExpanded);
  EXPECT_EQ(choice_of({}).kv_cache, KvCacheForm::kLatent);
}

// What "auto" and "fusion" run by default.
TEST(ChooseKernels, AutoFollowsTheCache) {
  const std::vector<std::int32_t> ids = ReferenceValues("lite").ids("ids");
  Loaded model("lite", DType::kBF16);
  for (const char* prolog : {"auto", "fusion"}) {
    for (const auto& [cache, name] : {std::pair{"latent", "latent"}, {"expanded", "fused"}}) {
      WithKernels run(model, KernelOptions{.mla_prolog = prolog, .kv_cache = cache});
      run.logits(ids, 1000);
      EXPECT_EQ(run.kernels.names().mla_prolog, name);
      EXPECT_EQ(run.kernels.names().kv_cache, cache);
    }
  }
}

TEST(ChooseKernels, BaselineIsTheNativeSequence) {
  EXPECT_EQ(choice_of({.mla_prolog = "baseline"}).mla_prolog, nullptr);
  EXPECT_EQ(choice_of(baseline_kernels()).mla_prolog, nullptr);
  EXPECT_EQ(choice_of(baseline_kernels()).rms_norm, &ops::kRmsNormNative);
  EXPECT_EQ(choice_of(baseline_kernels()).rope, &ops::kRopeNative);
}

TEST(ChooseKernels, RefusesWhatDoesNotFitTogether) {
  EXPECT_ERROR(choice_of({.mla_prolog = "latent", .kv_cache = "expanded"}),
               ErrorCode::kInvalidArgument,
               "the latent prolog writes the latent form of the KV cache and no other; leave out "
               "--kv-cache or choose another with --kv-fusion");
  for (const char* prolog : {"fused", "hybrid"}) {
    // Also where the model could not run it anyway.
    for (const char* model : {"lite", "attention_bias"}) {
      EXPECT_ERROR(choice_of({.mla_prolog = prolog, .kv_cache = "latent"}, model),
                   ErrorCode::kInvalidArgument,
                   fmt::format("the {} prolog writes the expanded form of the KV cache and no "
                               "other; leave out --kv-cache or choose another with --kv-fusion",
                               prolog));
    }
  }
}

TEST(ChooseKernels, RefusesUnknownNames) {
  EXPECT_ERROR(choice_of({.kv_cache = "big"}), ErrorCode::kInvalidArgument,
               "there is no form \"big\" of the KV cache; choose one of latent, expanded, auto");
  for (const KernelOptions& options :
       {KernelOptions{.rms_norm = "x"}, {.rope = "x"}, {.mla_prolog = "x"}}) {
    try {
      choice_of(options);
      ADD_FAILURE() << describe(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("has no implementation \"x\""));
    }
  }
}

TEST(ChooseKernels, WarnsOnceOfWhatTheModelCannotRun) {
  const ModelConfig config = ModelConfig::load(reference_folder("attention_bias"));
  for (const std::string prolog : {"fused", "hybrid", "latent", "fusion", "auto"}) {
    Warnings warnings;
    const KernelChoice choice =
        choose_kernels({.mla_prolog = prolog}, config, WeightFormat::kF32,
                       [&](std::string_view sentence) { warnings.emplace_back(sentence); });
    EXPECT_EQ(choice.mla_prolog, nullptr) << prolog;
    EXPECT_EQ(choice.kv_cache, KvCacheForm::kLatent) << prolog;
    if (prolog == "auto") {
      EXPECT_EQ(warnings, Warnings{});
    } else {
      EXPECT_EQ(warnings,
                Warnings{fmt::format("mla_prolog {} adds no bias; the native operators run instead",
                                     prolog == "fusion" ? "latent" : prolog)});
    }
  }
}

}  // namespace
}  // namespace tessera
