#include "ops/rope/rope.h"

#include <fstream>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::near;
using testing::PaddedRows;
using testing::same_bits;

// One configuration of tests/data/reference/yarn.json.
struct Case {
  std::string name;
  nlohmann::json json;
  RopeParameters parameters;
  std::int64_t qk_dim;
};

double number_or(const nlohmann::json& json, const char* key, double otherwise) {
  return json.contains(key) ? json.at(key).get<double>() : otherwise;
}

const nlohmann::json& yarn_file() {
  static const auto json =
      nlohmann::json::parse(std::ifstream(TESSERA_TEST_DATA "/reference/yarn.json"));
  return json;
}

std::vector<Case> yarn_cases() {
  std::vector<Case> cases;
  for (const auto& json : yarn_file().at("cases")) {
    Case c{json.at("name"), json, {}, 0};
    c.parameters.dim = json.at("qk_rope_head_dim");
    c.parameters.theta = json.at("rope_theta");
    c.qk_dim = json.at("qk_nope_head_dim").get<std::int64_t>() + c.parameters.dim;
    if (const auto& y = json.at("rope_scaling"); !y.is_null()) {
      if (y.contains("truncate") && !y.at("truncate").get<bool>()) continue;  // config refuses it
      c.parameters.yarn = {y.at("factor"),
                           y.at("original_max_position_embeddings"),
                           number_or(y, "beta_fast", 32),
                           number_or(y, "beta_slow", 1),
                           number_or(y, "mscale", 1),
                           number_or(y, "mscale_all_dim", 0)};
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

TEST(RopeFrequencies, AllYarnCasesAreThere) {
  EXPECT_EQ(yarn_cases().size(), 14u);
}

TEST(RopeFrequencies, EqualTransformersForEveryYarnCase) {
  for (const Case& c : yarn_cases()) {
    SCOPED_TRACE(c.name);
    const auto expected = c.json.at("inv_freq").get<std::vector<double>>();
    const RopeFrequencies frequencies(c.parameters);
    ASSERT_EQ(frequencies.n_pairs(), std::ssize(expected));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(frequencies.inverse_frequency()[i] / expected[i], 1, 1e-6) << "pair " << i;
    }
  }
}

TEST(RopeFrequencies, ScaleCosAndSinAsDeepSeekDoes) {
  for (const Case& c : yarn_cases()) {
    const auto expected = c.json.at("attention_scaling_deepseek").get<double>();
    EXPECT_NEAR(RopeFrequencies(c.parameters).cos_sin_scale(), expected, 1e-6) << c.name;
  }
}

TEST(RopeFrequencies, CosAndSinOfEveryYarnCase) {
  const auto positions = yarn_file().at("positions").get<std::vector<std::int64_t>>();
  for (const Case& c : yarn_cases()) {
    const RopeFrequencies frequencies(c.parameters);
    const auto n = static_cast<std::size_t>(frequencies.n_pairs());
    // The file has transformers' factor in its values.
    const double factor =
        frequencies.cos_sin_scale() / c.json.at("attention_scaling").get<double>();
    std::vector<float> cos(n);
    std::vector<float> sin(n);
    for (std::size_t p = 0; p < positions.size(); ++p) {
      SCOPED_TRACE(c.name + ", position " + std::to_string(positions[p]));
      frequencies.cos_sin(positions[p], cos, sin);
      for (std::size_t i = 0; i < n; ++i) {
        // Frequency and angle are rounded to fp32.
        const double angle = static_cast<double>(positions[p]) * frequencies.inverse_frequency()[i];
        const double bound = 1e-6 + 3e-7 * angle;
        EXPECT_NEAR(cos[i], c.json.at("cos")[p][i].get<double>() * factor, bound) << "pair " << i;
        EXPECT_NEAR(sin[i], c.json.at("sin")[p][i].get<double>() * factor, bound) << "pair " << i;
      }
    }
  }
}

TEST(AttentionScale, OfEveryYarnCase) {
  for (const Case& c : yarn_cases()) {
    const auto expected = c.json.at("softmax_scale").get<double>();
    EXPECT_NEAR(attention_scale(c.parameters, c.qk_dim), expected, 1e-12) << c.name;
  }
}

TEST(AttentionScale, OfDeepSeekV2Lite) {
  const RopeParameters lite{64, 10000, YarnParameters{40, 4096, 32, 1, 0.707, 0.707}};
  EXPECT_NEAR(attention_scale(lite, 192), 0.114721, 5e-7);
}

TEST(YarnMscale, IsOneUpToScaleOneAndThenGrowsWithTheLogarithm) {
  EXPECT_EQ(yarn_mscale(0.5, 0.707), 1);
  EXPECT_EQ(yarn_mscale(1, 0.707), 1);
  EXPECT_EQ(yarn_mscale(40, 0), 1);
  EXPECT_NEAR(yarn_mscale(40, 0.707), 1.2608037774058554, 1e-12);
}

// cos and sin [1, 2]: pair 0 turns by 90 degrees, pair 1 by none.
struct QuarterTurn {
  std::vector<float> cos{0, 1};
  std::vector<float> sin{1, 0};
  ConstRows cos_rows{cos.data(), 1, 2};
  ConstRows sin_rows{sin.data(), 1, 2};
};

TEST(Rope, InterleavedPairsAreNeighbours) {
  const QuarterTurn turn;
  std::vector<float> head = {1, 2, 3, 4};
  rope({head.data(), 1, 1, 4, 4}, turn.cos_rows, turn.sin_rows, RopeLayout::kInterleaved);
  EXPECT_EQ(head, (std::vector<float>{-2, 1, 3, 4}));
}

TEST(Rope, HalfSplitPairsAreHalfAHeadApart) {
  const QuarterTurn turn;
  std::vector<float> head = {1, 2, 3, 4};
  rope({head.data(), 1, 1, 4, 4}, turn.cos_rows, turn.sin_rows, RopeLayout::kHalfSplit);
  EXPECT_EQ(head, (std::vector<float>{-3, 2, 1, 4}));
}

class RopeLayouts
    : public ::testing::TestWithParam<std::tuple<const RopeImplementation*, RopeLayout>> {
 protected:
  static RopeLayout layout() { return std::get<1>(GetParam()); }
  static void rotate(const Heads& x, const ConstRows& cos, const ConstRows& sin,
                     Executor& executor) {
    std::get<0>(GetParam())->run(x, cos, sin, layout(), executor);
  }
};

TEST_P(RopeLayouts, EqualTheReferenceAndTouchTheRotatedValuesOnly) {
  std::mt19937 random(1);
  testing::AlwaysParallel executor(2);
  for (std::int64_t pairs : {1, 3, 7, 8, 9, 16, 17, 32}) {
    for (std::int64_t heads : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} heads of {} pairs", heads, pairs));
      PaddedRows cos(4, pairs);
      PaddedRows sin(4, pairs);
      cos.fill(random);
      sin.fill(random);
      // Every head has two values in front of those that turn; here they are poisoned.
      const std::int64_t head_dim = 2 + 2 * pairs;
      PaddedRows x(4, heads * head_dim);
      PaddedRows expected(4, heads * head_dim);
      const auto rotated = [&](const PaddedRows& rows) {
        Heads all = rows.heads(heads);
        all.data += 2;
        return all;
      };
      for (std::int64_t r = 0; r < 4; ++r) {
        for (std::int64_t h = 0; h < heads; ++h) {
          for (std::int64_t i = 0; i < 2 * pairs; ++i) {
            const float value = testing::random_value(random);
            rotated(x).at(r, h)[i] = value;
            rotated(expected).at(r, h)[i] = value;
          }
        }
      }
      rotate(rotated(x), cos.rows(), sin.rows(), executor);
      rope_reference(rotated(expected), cos.rows(), sin.rows(), layout());
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t r = 0; r < 4; ++r) {
          const auto n = static_cast<std::size_t>(2 * pairs);
          EXPECT_TRUE(near({rotated(x).at(r, h), n}, {rotated(expected).at(r, h), n}, 1e-6));
          EXPECT_TRUE(testing::is_poison(rotated(x).at(r, h)[-1]));
          EXPECT_TRUE(testing::is_poison(rotated(x).at(r, h)[-2]));
        }
      }
      EXPECT_TRUE(x.guards_intact());
    }
  }
}

TEST_P(RopeLayouts, NoRowsWriteNothing) {
  PaddedRows cos(0, 2);
  PaddedRows x(0, 4);
  Executor executor(1);
  rotate(x.heads(1), cos.rows(), cos.rows(), executor);
  EXPECT_TRUE(x.guards_intact());
}

TEST_P(RopeLayouts, HaveTheSameBitsForEveryThreadCount) {
  std::mt19937 random(4);
  PaddedRows cos(37, 9);
  PaddedRows sin(37, 9);
  cos.fill(random);
  sin.fill(random);
  PaddedRows x(37, 5 * 18);
  x.fill(random);
  const auto rotated = [&](Executor& executor) {
    PaddedRows copy(37, 5 * 18);
    copy.fill(x.values());
    rotate(copy.heads(5), cos.rows(), sin.rows(), executor);
    return copy.values();
  };
  Executor single(1);
  const std::vector<float> one = rotated(single);
  for (int threads : {2, 3}) {
    testing::AlwaysParallel executor(threads);
    EXPECT_TRUE(same_bits(rotated(executor), one)) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RopeLayouts,
                         ::testing::Combine(::testing::Values(&kRopeTile, &kRopeNative),
                                            ::testing::Values(RopeLayout::kInterleaved,
                                                              RopeLayout::kHalfSplit)),
                         [](const auto& info) {
                           const bool interleaved =
                               std::get<1>(info.param) == RopeLayout::kInterleaved;
                           return std::string(std::get<0>(info.param)->name) +
                                  (interleaved ? "_interleaved" : "_half_split");
                         });

TEST(Rope, HalfSplitOfPermutedValuesIsInterleaved) {
  std::mt19937 random(2);
  constexpr std::int64_t kPairs = 5;
  PaddedRows cos(3, kPairs);
  PaddedRows sin(3, kPairs);
  cos.fill(random);
  sin.fill(random);
  PaddedRows interleaved(3, 2 * kPairs);
  interleaved.fill(random);
  PaddedRows halves(3, 2 * kPairs);
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::size_t i = 0; i < kPairs; ++i) {
      halves.rows().row(r)[i] = interleaved.rows().row(r)[2 * i];
      halves.rows().row(r)[kPairs + i] = interleaved.rows().row(r)[2 * i + 1];
    }
  }
  rope(interleaved.heads(1), cos.rows(), sin.rows(), RopeLayout::kInterleaved);
  rope(halves.heads(1), cos.rows(), sin.rows(), RopeLayout::kHalfSplit);
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::size_t i = 0; i < kPairs; ++i) {
      EXPECT_EQ(halves.rows().row(r)[i], interleaved.rows().row(r)[2 * i]);
      EXPECT_EQ(halves.rows().row(r)[kPairs + i], interleaved.rows().row(r)[2 * i + 1]);
    }
  }
}

TEST(Rope, ScoresDependOnTheDistanceAlone) {
  std::mt19937 random(3);
  const RopeFrequencies frequencies(RopeParameters{16, 100, std::nullopt});
  PaddedRows query(1, 16);
  PaddedRows key(1, 16);
  query.fill(random);
  key.fill(random);
  const auto turned = [&](const PaddedRows& x, std::int64_t position) {
    std::vector<float> cos(8);
    std::vector<float> sin(8);
    frequencies.cos_sin(position, cos, sin);
    std::vector<float> values = x.values();
    rope({values.data(), 1, 1, 16, 16}, {cos.data(), 1, 8}, {sin.data(), 1, 8},
         RopeLayout::kInterleaved);
    return values;
  };
  const auto score = [&](std::int64_t query_position, std::int64_t key_position) {
    const auto q = turned(query, query_position);
    const auto k = turned(key, key_position);
    double sum = 0;
    for (std::size_t i = 0; i < q.size(); ++i) sum += static_cast<double>(q[i]) * k[i];
    return sum;
  };
  EXPECT_NEAR(score(7, 3), score(104, 100), 1e-5);
  EXPECT_GT(std::abs(score(7, 3) - score(7, 4)), 1e-3);
}

}  // namespace
}  // namespace tessera::ops
