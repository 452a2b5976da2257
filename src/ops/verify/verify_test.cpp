#include "ops/verify/verify.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/convert.h"
#include "ops/registry.h"

namespace tessera::ops::verify {
namespace {

std::string describe(const Report& report) {
  std::string text = fmt::format("{} {}", report.id, report.implementation);
  for (const OutputReport& o : report.outputs) {
    if (o.pass) continue;
    text += fmt::format("; {}: max abs {}, {} outside, {} NaN, cosine {}, worst {} {}", o.name,
                        o.measure.max_abs, o.measure.n_outside, o.measure.n_nan, o.measure.cosine,
                        to_string(o.worst), o.fault);
  }
  return text;
}

class BuiltinCases : public ::testing::TestWithParam<std::string> {};

TEST_P(BuiltinCases, PassForEveryImplementation) {
  Executor executor(2);
  for (const Case& c : builtin_cases()) {
    if (c.op != GetParam()) continue;
    const Verification verification(c, executor);
    for (std::string_view name : verification.implementations()) {
      const Report report = verification.check(name, executor);
      EXPECT_TRUE(!report.ran() || report.pass()) << describe(report);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BuiltinCases, ::testing::Values("rms_norm", "rope", "mla_prolog"),
                         [](const auto& info) { return info.param; });

TEST(CasesOfTheLibrary, HaveTheOriginalsFirst) {
  std::size_t n_prolog = 0;
  for (const Case& c : builtin_cases()) {
    if (c.op != "mla_prolog") continue;
    if (n_prolog++ > 0) continue;
    EXPECT_EQ(c.id, "mla_prolog_001");
    EXPECT_EQ(c.seed, 42);
    EXPECT_EQ(c.input("hidden_states").shape, (Shape{1, 1, 2048}));
    EXPECT_EQ(c.output("k_nope").tolerance.atol, 0.01);
  }
  EXPECT_GE(n_prolog, 60u);
}

constexpr std::string_view kSmallCase = R"({"test_cases": [{"id": "small", "seed": 3, "input": {
    "hidden_states": {"shape": [2, 3, 24], "dtype": "float16"},
    "kv_a_weight": {"shape": [24, 20], "dtype": "float16"},
    "kv_b_weight": {"shape": [16, 36], "dtype": "float16"},
    "ln_weight": {"shape": [16], "dtype": "float16"},
    "eps": {"value": 1e-6},
    "cos": {"shape": [8, 4], "dtype": "float16"}, "sin": {"shape": [8, 4], "dtype": "float16"},
    "pos_ids": {"shape": [2, 3], "dtype": "int64"}},
  "output": {"k_nope": {"shape": [2, 2, 3, 8], "dtype": "float16"},
    "value": {"shape": [2, 2, 3, 10], "dtype": "float16"},
    "k_pe": {"shape": [2, 1, 3, 4], "dtype": "float16"},
    "latent": {"shape": [2, 3, 20], "dtype": "float16"}},
  "rtol": 1e-2, "atol": 1e-2}]})";

Case small_case() {
  return parse_cases(kSmallCase, "small").at(0);
}

// The same without latent and pages: outputs are written where they are checked.
Case dense_case() {
  Case c = small_case();
  c.seed = 4;
  c.outputs.erase("latent");
  return c;
}

// The baseline, with something done to its call before or after.
template <auto kBefore, auto kAfter>
class Tampered : public MlaProlog {
 public:
  Tampered(const MlaPrologWeights& weights, Executor& executor)
      : right_(kMlaPrologBaseline.create(weights, executor)) {}

  void run(const MlaPrologCall& call, Executor& executor) const override {
    MlaPrologCall changed = call;
    kBefore(changed);
    right_->run(changed, executor);
    kAfter(changed);
  }

 private:
  std::unique_ptr<MlaProlog> right_;
};

constexpr auto kNothingBefore = [](MlaPrologCall&) {};
constexpr auto kNothingAfter = [](const MlaPrologCall&) {};

template <auto kBefore, auto kAfter>
Report check_tampered(const Case& c = dense_case()) {
  static const MlaPrologImplementation kWrong = {
      "wrong", kMlaPrologBaseline.unsupported,
      [](const MlaPrologWeights& weights, Executor& executor) -> std::unique_ptr<MlaProlog> {
        return std::make_unique<Tampered<kBefore, kAfter>>(weights, executor);
      }};
  const MlaPrologImplementation* const list[] = {&kWrong, &kMlaPrologReference};
  Executor executor(2);
  return Verification(c, make_mla_prolog_fixture(c, list), executor).check("wrong", executor);
}

const OutputReport& output(const Report& report, std::string_view name) {
  return *std::ranges::find(report.outputs, name, &OutputReport::name);
}

f16* halves(const HeadTensor& tensor) {
  return reinterpret_cast<f16*>(tensor.data);
}

TEST(Verify, TheUnchangedImplementationPasses) {
  for (const Case& c : {small_case(), dense_case()}) {
    const Report report = check_tampered<kNothingBefore, kNothingAfter>(c);
    EXPECT_TRUE(report.pass()) << describe(report);
    EXPECT_EQ(report.outputs.size(), c.outputs.size());
  }
}

TEST(Verify, ANanFails) {
  const Report report = check_tampered<kNothingBefore, [](const MlaPrologCall& call) {
    halves(call.value)[7] = to_f16(std::numeric_limits<float>::quiet_NaN());
  }>();
  EXPECT_FALSE(report.pass());
  EXPECT_EQ(output(report, "value").measure.n_nan, 1);
  EXPECT_EQ(output(report, "value").worst, (Shape{0, 0, 0, 7}));
  EXPECT_TRUE(output(report, "k_nope").pass);
}

TEST(Verify, AnInfinityFails) {
  const Report report = check_tampered<kNothingBefore, [](const MlaPrologCall& call) {
    halves(call.k_pe)[23] = to_f16(1e30f);
  }>();
  EXPECT_FALSE(report.pass());
  EXPECT_EQ(output(report, "k_pe").measure.n_inf, 1);
  EXPECT_EQ(output(report, "k_pe").worst, (Shape{1, 0, 2, 3}));
}

TEST(Verify, OneElementOffByTwoHundredthsFails) {
  const Report report = check_tampered<kNothingBefore, [](const MlaPrologCall& call) {
    f16* worst = halves(call.k_nope) + 50;
    const float value = to_float(*worst);
    *worst = to_f16(value + 2e-2f + 2e-2f * std::abs(value));
  }>();
  EXPECT_FALSE(report.pass());
  EXPECT_EQ(output(report, "k_nope").measure.n_outside, 1);
  EXPECT_EQ(output(report, "k_nope").worst, (Shape{1, 0, 0, 2}));
  EXPECT_GT(output(report, "k_nope").measure.worst_ratio, 1.5);
}

// What the original stored: [b, s, heads, nope] under the name of [b, heads, s, nope].
TEST(Verify, TokensBeforeHeadsFail) {
  const Report report = check_tampered<[](MlaPrologCall& call) {
    call.k_nope.token_stride = 2 * 8;
    call.k_nope.head_stride = 8;
  },
                                       kNothingAfter>();
  EXPECT_FALSE(report.pass());
  EXPECT_FALSE(output(report, "k_nope").pass);
  EXPECT_EQ(output(report, "k_nope").measure.n_nan, 0);
  EXPECT_TRUE(output(report, "value").pass);
}

TEST(Verify, TheOtherRopeLayoutFails) {
  const Report report =
      check_tampered<[](MlaPrologCall& call) { call.layout = RopeLayout::kHalfSplit; },
                     kNothingAfter>(small_case());
  EXPECT_FALSE(output(report, "k_pe").pass);
  EXPECT_FALSE(output(report, "latent").pass);
  EXPECT_TRUE(output(report, "k_nope").pass);
}

TEST(Verify, AnOutputThatIsNotWrittenFails) {
  const Report report =
      check_tampered<[](MlaPrologCall& call) { call.k_pe = {}; }, kNothingAfter>();
  EXPECT_EQ(output(report, "k_pe").measure.n_nan, 2 * 3 * 4);
  EXPECT_FALSE(report.pass());
}

TEST(Verify, AWriteBehindTheTensorFails) {
  const Report report = check_tampered<kNothingBefore, [](const MlaPrologCall& call) {
    halves(call.value)[2 * 2 * 3 * 10] = to_f16(0.0f);
  }>();
  EXPECT_FALSE(report.pass());
  EXPECT_EQ(output(report, "value").fault, "wrote before or after the tensor");
}

TEST(Verify, AWriteIntoAnotherRowOfTheCacheFails) {
  const Report report = check_tampered<kNothingBefore, [](const MlaPrologCall& call) {
    for (std::int64_t slot = 0; slot < 13; ++slot) {
      if (std::ranges::find(call.slots, slot) != call.slots.end()) continue;
      reinterpret_cast<f16*>(call.latent.data)[slot * 20] = to_f16(0.0f);
      return;
    }
  }>(small_case());
  EXPECT_FALSE(report.pass());
  EXPECT_NE(output(report, "latent").fault.find("which belongs to no token"), std::string::npos);
}

TEST(Verify, WhatIsUnsupportedIsNotRun) {
  static const MlaPrologImplementation kPicky = {
      "picky",
      [](const MlaPrologWeights&, const MlaPrologCall& call) {
        return std::string(call.latent.wanted() ? "writes no latent" : "");
      },
      nullptr};
  const MlaPrologImplementation* const list[] = {&kPicky, &kMlaPrologReference};
  Executor executor(1);
  const Case c = small_case();
  const Report report =
      Verification(c, make_mla_prolog_fixture(c, list), executor).check("picky", executor);
  EXPECT_FALSE(report.ran());
  EXPECT_FALSE(report.pass());
  EXPECT_EQ(report.unsupported, "writes no latent");
}

Measure measure_floats(std::vector<float> got, std::vector<float> expected, Tolerance tolerance) {
  return measure(std::as_bytes(std::span(got)), DType::kF32, expected, tolerance);
}

TEST(Measure, CountsStepsOfTheType) {
  const float one_up = std::nextafter(1.0f, 2.0f);
  EXPECT_EQ(measure_floats({one_up}, {1.0f}, {1, 1}).max_ulp, 1);
  EXPECT_EQ(measure_floats({-0.0f}, {0.0f}, {1, 1}).max_ulp, 0);
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(measure_floats({-tiny}, {tiny}, {1, 1}).max_ulp, 2);
  const bf16 got = to_bf16(1.0078125f);  // 1 + 2^-7
  EXPECT_EQ(
      measure(std::as_bytes(std::span(&got, 1)), DType::kBF16, std::vector{1.001f}, {1, 1}).max_ulp,
      1);
}

TEST(Measure, FindsTheWorstByItsTolerance) {
  const Measure m = measure_floats({100.5f, 1.1f, 0.0f}, {100.0f, 1.0f, 0.0f}, {1e-2, 1e-2});
  EXPECT_EQ(m.worst, 1);
  EXPECT_NEAR(m.max_abs, 0.5, 1e-5);
  EXPECT_NEAR(m.max_rel, 0.1, 1e-5);
  EXPECT_EQ(m.n_outside, 1);
  EXPECT_FLOAT_EQ(m.got, 1.1f);
  EXPECT_FLOAT_EQ(m.expected, 1.0f);
}

TEST(Measure, TheCosineCatchesATolerancethatIsTooWide) {
  const Measure m = measure_floats({1e-6f, -1e-6f}, {-1e-6f, 1e-6f}, {1e-4, 1e-4});
  EXPECT_EQ(m.n_outside, 0);
  EXPECT_NEAR(m.cosine, -1, 1e-9);
  EXPECT_FALSE(passes(m, DType::kF32));
}

TEST(Measure, ZerosArePerfect) {
  const Measure m = measure_floats({0, -0.0f}, {0, 0}, {0, 0});
  EXPECT_TRUE(passes(m, DType::kF32));
  EXPECT_EQ(m.cosine, 1);
}

TEST(Measure, ANumberWhereZeroIsExpectedFails) {
  EXPECT_FALSE(passes(measure_floats({1e-30f}, {0}, {0, 0}), DType::kF32));
}

}  // namespace
}  // namespace tessera::ops::verify
