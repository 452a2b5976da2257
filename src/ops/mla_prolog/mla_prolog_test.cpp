// Every implementation of the KV prolog: against values that NumPy made, and against what must hold
// for any numbers. The cases in cases.json run in ops/verify/verify_test.cpp.
#include "ops/mla_prolog/mla_prolog.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "io/safetensors.h"
#include "ops/registry.h"
#include "ops/verify/draw.h"
#include "ops/verify/verify.h"
#include "tests/compare.h"
#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using tessera::testing::close;
using verify::Case;
using verify::OutputMemory;
using verify::Verification;

const SafetensorsFile& expected_file() {
  static const SafetensorsFile file =
      SafetensorsFile::open(TESSERA_TEST_DATA "/prolog/expected.safetensors");
  return file;
}

template <typename T>
std::vector<T> stored(const std::string& name) {
  const SafetensorsEntry* entry = expected_file().find(name);
  if (entry == nullptr) return {};
  std::vector<T> values(entry->n_bytes / sizeof(T));
  std::memcpy(values.data(), expected_file().bytes(*entry).data(), entry->n_bytes);
  return values;
}

// A case of tools/reference/prolog_values.py: weights and call read from the file, fp32 outputs.
struct Stored {
  explicit Stored(const std::string& name) : name(name) {
    std::istringstream shape(expected_file().metadata().at(name));
    std::string layout;
    MlaDims& d = weights.dims;
    shape >> call.blocks >> call.block_tokens >> d.hidden >> d.heads >> d.kv_rank >> d.nope >>
        d.rope >> d.v >> layout;
    call.layout = layout == "interleaved" ? RopeLayout::kInterleaved : RopeLayout::kHalfSplit;
    hidden = floats("hidden"), kv_a = floats("kv_a"), kv_b = floats("kv_b"), norm = floats("norm");
    cos = floats("cos"), sin = floats("sin"), bias = floats("kv_a_bias");
    positions = stored<std::int64_t>(name + ".positions");

    weights.kv_a = view(kv_a, d.latent_row(), d.hidden);
    weights.kv_b = view(kv_b, d.heads * d.head_row(), d.kv_rank);
    weights.norm = norm.data();
    weights.kv_a_bias = bias.empty() ? nullptr : bias.data();
    weights.eps = floats("eps").at(0);
    const std::int64_t n_positions = std::ssize(cos) / (d.rope / 2);
    call.hidden = {hidden.data(), call.n_slots(), d.hidden};
    call.cos = {cos.data(), n_positions, d.rope / 2};
    call.sin = {sin.data(), n_positions, d.rope / 2};
    call.positions = positions;
  }

  std::vector<float> floats(const std::string& tensor) const {
    return stored<float>(name + "." + tensor);
  }
  static WeightView view(const std::vector<float>& values, std::int64_t n, std::int64_t k) {
    return {reinterpret_cast<const std::byte*>(values.data()), DType::kF32, n, k, k, 1};
  }

  std::string name;
  std::vector<float> hidden, kv_a, kv_b, norm, cos, sin, bias;
  std::vector<std::int64_t> positions;
  MlaPrologWeights weights;
  MlaPrologCall call;
};

std::byte* bytes(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

class StoredValues
    : public ::testing::TestWithParam<std::tuple<const MlaPrologImplementation*, std::string>> {
 protected:
  const MlaPrologImplementation& implementation() const { return *std::get<0>(GetParam()); }
  Stored stored_case() const { return Stored(std::get<1>(GetParam())); }
};

TEST_P(StoredValues, AreReproduced) {
  Stored s = stored_case();
  const MlaDims& d = s.weights.dims;
  const std::int64_t n = s.call.n_tokens();
  std::vector<float> k_nope(static_cast<std::size_t>(n * d.heads * d.nope));
  std::vector<float> value(static_cast<std::size_t>(n * d.heads * d.v));
  std::vector<float> k_pe(static_cast<std::size_t>(n * d.rope));
  std::vector<float> latent(static_cast<std::size_t>(n * d.latent_row()));
  s.call.k_nope =
      HeadTensor::dense(bytes(k_nope), DType::kF32, d.heads, s.call.block_tokens, d.nope);
  s.call.value = HeadTensor::dense(bytes(value), DType::kF32, d.heads, s.call.block_tokens, d.v);
  s.call.k_pe = HeadTensor::dense(bytes(k_pe), DType::kF32, 1, s.call.block_tokens, d.rope);
  s.call.latent = {bytes(latent), DType::kF32};

  // Everything at once where the implementation writes it, else the latent or the heads.
  const MlaPrologCall all = s.call;
  if (!implementation().unsupported(s.weights, s.call).empty()) s.call.latent = {};
  if (!implementation().unsupported(s.weights, s.call).empty()) {
    s.call.latent = all.latent;
    s.call.k_nope = s.call.value = s.call.k_pe = {};
  }
  if (const auto why = implementation().unsupported(s.weights, s.call); !why.empty()) {
    GTEST_SKIP() << implementation().name << " " << why;
  }
  testing::AlwaysParallel executor(2);
  implementation().create(s.weights, executor)->run(s.call, executor);
  const double tolerance = implementation().name == "reference" ? 1e-7 : 2e-6;
  if (s.call.k_nope.wanted()) {
    EXPECT_TRUE(close(k_nope, s.floats("k_nope"), tolerance));
    EXPECT_TRUE(close(value, s.floats("value"), tolerance));
    EXPECT_TRUE(close(k_pe, s.floats("k_pe"), tolerance));
  }
  if (s.call.latent.wanted()) {
    EXPECT_TRUE(close(latent, s.floats("latent"), tolerance));
  }
}

// Into the middle of longer buffers, as a cache of expanded keys and values keeps them.
TEST_P(StoredValues, GoWhereTheStridesSay) {
  Stored s = stored_case();
  const MlaDims& d = s.weights.dims;
  const std::int64_t capacity = s.call.block_tokens + 4;
  const std::int64_t token = d.nope + d.v + 3;  // key and value side by side, and a gap
  constexpr float kUntouched = -77;
  std::vector<float> both(static_cast<std::size_t>(s.call.blocks * d.heads * capacity * token),
                          kUntouched);
  s.call.k_nope = {bytes(both), DType::kF32, d.heads * capacity * token, capacity * token, token};
  s.call.value = s.call.k_nope;
  s.call.value.data += static_cast<std::size_t>(d.nope) * sizeof(float);
  if (const auto why = implementation().unsupported(s.weights, s.call); !why.empty()) {
    GTEST_SKIP() << implementation().name << " " << why;
  }

  testing::AlwaysParallel executor(2);
  implementation().create(s.weights, executor)->run(s.call, executor);
  std::vector<float> k_nope;
  std::vector<float> value;
  for (std::int64_t head = 0; head < s.call.blocks * d.heads; ++head) {
    for (std::int64_t t = 0; t < capacity; ++t) {
      const auto row = both.begin() + (head * capacity + t) * token;
      const auto key_end = row + d.nope;
      const auto value_end = key_end + d.v;
      if (t < s.call.block_tokens) {
        k_nope.insert(k_nope.end(), row, key_end);
        value.insert(value.end(), key_end, value_end);
      }
      EXPECT_EQ(std::count(t < s.call.block_tokens ? value_end : row, row + token, kUntouched),
                t < s.call.block_tokens ? 3 : token);
    }
  }
  EXPECT_TRUE(close(k_nope, s.floats("k_nope"), 2e-6));
  EXPECT_TRUE(close(value, s.floats("value"), 2e-6));
}

INSTANTIATE_TEST_SUITE_P(
    All, StoredValues,
    ::testing::Combine(::testing::ValuesIn(mla_prolog_implementations().begin(),
                                           mla_prolog_implementations().end()),
                       ::testing::Values("one_token", "sequence", "batch", "batch_of_sequences",
                                         "half_split", "odd_with_bias")),
    [](const auto& info) {
      return fmt::format("{}_{}", std::get<0>(info.param)->name, std::get<1>(info.param));
    });

// A case of random shape and of `rows` tokens at most, with the outputs that the implementation
// writes: the latent, or the heads and for the native ones, which can, sometimes both.
Case random_case(std::int64_t seed, std::int64_t rows, std::string_view implementation) {
  // Dims and types come in kDims combinations: each one is compiled, for every class of row counts.
  constexpr std::int64_t kDims = 12;
  std::mt19937_64 random(static_cast<std::uint64_t>(seed % kDims));
  const auto up_to = [&](std::int64_t n) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const std::int64_t batch = 1 + seed / kDims % std::min<std::int64_t>(rows, 5);
  const std::int64_t seq = rows / batch;
  const std::int64_t hidden = up_to(80);
  const std::int64_t heads = up_to(5);
  const std::int64_t kv_rank = 15 + up_to(50);
  const std::int64_t nope = up_to(40);
  const std::int64_t rope = 2 * up_to(20);
  const std::int64_t v = up_to(40);
  const DType dtype = std::vector{DType::kF32, DType::kBF16, DType::kF16}[random() % 3];
  const double tolerance = dtype == DType::kF32 ? 1e-4 : 2e-2;  // short sums of large terms

  Case c;
  c.file = "random";
  c.op = "mla_prolog";
  c.id = std::to_string(seed);
  c.seed = seed;
  c.eps = 1e-6;
  c.layout = random() % 2 == 0 ? RopeLayout::kInterleaved : RopeLayout::kHalfSplit;
  c.inputs = {{"hidden_states", {{batch, seq, hidden}, dtype, {}}},
              {"kv_a_weight", {{hidden, kv_rank + rope}, dtype, {}}},
              {"kv_b_weight", {{kv_rank, heads * (nope + v)}, dtype, {}}},
              {"ln_weight", {{kv_rank}, dtype, {}}},
              {"cos", {{seq + 5, rope}, dtype, {}}},
              {"sin", {{seq + 5, rope}, dtype, {}}}};
  if (random() % 4 == 0) c.inputs["kv_a_bias"] = {{kv_rank + rope}, DType::kF32, {}};
  c.positions = {{batch, seq}, {}};
  const verify::Tolerance t{tolerance, tolerance};
  const bool native = implementation == "baseline" || implementation == "reference";
  if (implementation != "latent") {
    c.outputs = {{"k_nope", {{batch, heads, seq, nope}, dtype, t}},
                 {"value", {{batch, heads, seq, v}, dtype, t}},
                 {"k_pe", {{batch, 1, seq, rope}, dtype, t}}};
  }
  if (implementation == "latent" || (native && random() % 2 == 0)) {
    c.outputs["latent"] = {{batch, seq, kv_rank + rope}, dtype, t};
  }
  return c;
}

class AnyShape : public ::testing::TestWithParam<std::string_view> {};

// Every tensor lies between guards, and starts as NaN.
TEST_P(AnyShape, EqualsTheReferenceAndStaysInItsMemory) {
  testing::AlwaysParallel executor(2);
  std::mt19937 random(7);
  int ran = 0;
  for (std::int64_t seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed, 1 + static_cast<std::int64_t>(random() % 300), GetParam());
    const verify::Report report = Verification(c, executor).check(GetParam(), executor);
    if (!report.ran()) continue;
    ++ran;
    for (const auto& output : report.outputs) {
      EXPECT_TRUE(output.pass) << "draw " << seed << ", " << output.name << " "
                               << verify::to_string(output.shape) << " " << to_string(output.dtype)
                               << ", max abs " << output.measure.max_abs << " " << output.fault;
    }
  }
  EXPECT_GE(ran, 100) << "too few draws that the implementation supports";
}

TEST_P(AnyShape, HasTheSameBitsForEveryThreadCount) {
  for (std::int64_t seed : {1, 2, 3, 4, 5, 6}) {
    Case c = random_case(seed, 300, GetParam());
    c.inputs.erase("kv_a_bias");  // so that every implementation runs
    Executor one(1);
    const Verification verification(c, one);
    const std::vector<OutputMemory> expected = verification.run(GetParam(), one);
    for (int threads : {2, 3}) {
      testing::AlwaysParallel executor(threads);
      const std::vector<OutputMemory> got = verification.run(GetParam(), executor);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(std::ranges::equal(got[i].memory.bytes(), expected[i].memory.bytes()))
            << "draw " << seed << ", " << got[i].name << ", " << threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AnyShape, ::testing::ValuesIn(implementation_names("mla_prolog")),
                         [](const auto& info) { return std::string(info.param); });

TEST(MlaProlog, NoTokensWriteNothing) {
  Stored s("one_token");
  s.call.block_tokens = 0;
  s.call.hidden.rows = 0;
  s.call.positions = {};
  std::vector<float> k_pe(4, 5.0f);
  s.call.k_pe = HeadTensor::dense(bytes(k_pe), DType::kF32, 1, 0, 4);
  testing::AlwaysParallel executor(2);
  for (const MlaPrologImplementation* implementation : mla_prolog_implementations()) {
    implementation->create(s.weights, executor)->run(s.call, executor);
    EXPECT_EQ(k_pe, std::vector<float>(4, 5.0f)) << implementation->name;
  }
}

TEST(Stream, DrawsTheDocumentedNumbers) {
  for (const auto& [seed, name] : {std::pair{42, "hidden_states"}, std::pair{7, "cos"}}) {
    const auto expected = stored<float>(fmt::format("generator.{}.{}", seed, name));
    const auto drawn = verify::Stream(seed, name).normal(std::ssize(expected), 1);
    EXPECT_TRUE(close(drawn, expected, 1e-7)) << name;
  }
}

TEST(Stream, IsStandardNormal) {
  const auto drawn = verify::Stream(1, "x").normal(100001, 2);
  double sum = 0;
  double squares = 0;
  std::int64_t beyond = 0;
  for (float x : drawn) {
    sum += x;
    squares += static_cast<double>(x) * x;
    beyond += std::abs(x) > 4 ? 1 : 0;
  }
  const auto n = static_cast<double>(drawn.size());
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 4, 0.1);
  EXPECT_NEAR(static_cast<double>(beyond) / n, 0.0455, 0.003);  // outside two deviations
}

}  // namespace
}  // namespace tessera::ops
