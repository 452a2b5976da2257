#include "ops/expanded_attention/expanded_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::near;
using testing::PaddedRows;
using testing::same_bits;

constexpr std::int64_t kPageTokens = 64;
constexpr std::int64_t kBlock = kExpandedBlockTokens;

// rows: the last tokens of `length`.
struct Case {
  std::int64_t heads = 2;
  std::int64_t latent = 32;
  std::int64_t nope = 16;
  std::int64_t rope = 8;
  std::int64_t v = 16;
  std::int64_t length = 1;
  std::int64_t rows = 1;
};

std::string describe(const Case& c) {
  return fmt::format("{} heads, latent {}, key {} + {}, value {}, {} rows of {} tokens", c.heads,
                     c.latent, c.nope, c.rope, c.v, c.rows, c.length);
}

// A sequence in a cache that is otherwise NaN, behind its last token too.
class Scene {
 public:
  Scene(DType dtype, PanelLayout layout, const Case& c, std::mt19937& random)
      : case_(c), query_(c.rows, c.heads * (c.nope + c.rope)) {
    for (std::int64_t i = (c.length + kPageTokens - 1) / kPageTokens; i > 0; --i) {
      pages_.push_back(static_cast<std::int32_t>(i));
    }
    const auto all = static_cast<std::size_t>((std::ssize(pages_) + 2) * kPageTokens);
    memory_.assign(all * static_cast<std::size_t>(c.latent + c.rope) * size_in_bytes(dtype),
                   std::byte{0xff});
    cache_ = {memory_.data(), dtype, kPageTokens, c.latent, c.rope};
    for (std::int64_t t = 0; t < c.length; ++t) set_token(t, random);
    query_.fill(random);
    // Keys and values of about the size of 1.
    testing::AlwaysParallel executor(2);
    const auto packed = [&](std::int64_t n) {
      std::vector<float> w(static_cast<std::size_t>(n * c.latent));
      const float size = std::sqrt(3.0f / static_cast<float>(c.latent));
      for (float& value : w) value = size * testing::random_value(random);
      return PackedLinear(
          {reinterpret_cast<const std::byte*>(w.data()), DType::kF32, n, c.latent, c.latent, 1},
          layout, executor);
    };
    for (std::int64_t h = 0; h < c.heads; ++h) {
      keys_.push_back(packed(c.nope));
      values_.push_back(packed(c.v));
    }
  }

  const Rows& query() const { return query_.rows(); }
  void set_token(std::int64_t t, std::mt19937& random) {
    std::vector<float> row(static_cast<std::size_t>(cache_.row_values()));
    for (float& value : row) value = testing::random_value(random);
    const std::size_t at = static_cast<std::size_t>(t % kPageTokens * cache_.row_values()) *
                           size_in_bytes(cache_.dtype);
    auto* page = const_cast<std::byte*>(cache_.page(pages_[static_cast<std::size_t>(t / 64)]));
    convert(row.data(), DType::kF32, page + at, cache_.dtype, row.size());
  }

  // Rows [first, first + n), seeing what they see.
  std::vector<float> run(int threads, std::int64_t first, std::int64_t n, float scale) const {
    testing::AlwaysParallel executor(threads);
    PaddedRows query(n, query_.rows().columns);
    for (std::int64_t r = 0; r < n; ++r) {
      std::ranges::copy(query_.rows().row(first + r), query.rows().row(r).begin());
    }
    PaddedRows out(n, case_.heads * case_.v);
    const VisibleTokens visible{pages_, case_.length - case_.rows + first + n};
    expanded_attention(query.heads(case_.heads), cache_, visible, {keys_, values_}, scale,
                       out.heads(case_.heads), executor);
    EXPECT_TRUE(out.guards_intact());
    return out.values();
  }
  std::vector<float> run(int threads, float scale) const {
    return run(threads, 0, case_.rows, scale);
  }
  std::vector<float> reference(float scale) const {
    PaddedRows out(case_.rows, case_.heads * case_.v);
    expanded_attention_reference(query_.heads(case_.heads), cache_, {pages_, case_.length},
                                 {keys_, values_}, scale, out.heads(case_.heads));
    return out.values();
  }

 private:
  Case case_;
  std::vector<std::int32_t> pages_;
  std::vector<std::byte> memory_;
  LatentPages cache_;
  PaddedRows query_;
  std::vector<PackedLinear> keys_;
  std::vector<PackedLinear> values_;
};

// Around groups of 16 rows, score blocks of 16 tokens, pages of 64 and blocks of kBlock, vectors of
// 4, 8 and 16 lanes; depths of 0 and odd ones.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (std::int64_t rows : {1, 15, 16, 17, 33}) {
    for (std::int64_t depth : {0, 1, 15, 16, 63, 100}) {
      all.push_back({.length = depth + rows, .rows = rows});
    }
  }
  for (std::int64_t length : {kBlock - 1, kBlock, kBlock + 1, 2 * kBlock + 1}) {
    all.push_back({.length = length, .rows = 1});
    all.push_back({.length = length, .rows = 17});
    all.push_back({.length = length, .rows = length});
  }
  // Rows on both sides of a block's beginning.
  all.push_back({.length = kBlock + 9, .rows = 20});
  all.push_back({.length = 2 * kBlock + 40, .rows = 77});
  for (std::int64_t heads : {1, 3, 16, 17})
    all.push_back({.heads = heads, .length = 40, .rows = 19});
  for (const auto& [latent, nope, rope, v] :
       std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>>{
           {1, 1, 2, 1},
           {3, 2, 2, 15},
           {33, 15, 2, 17},
           {31, 17, 4, 31},
           {50, 31, 6, 33},
           {64, 33, 8, 47}}) {
    all.push_back({2, latent, nope, rope, v, 70, 18});
    all.push_back({2, latent, nope, rope, v, 37, 37});
  }
  all.push_back({2, 512, 128, 64, 128, 300, 40});
  return all;
}

// Keys of bf16 move a score by up to 2^-9 of it and values an output by as much, weights of bf16 an
// average of values around 1; latents of int8 all of them by one part in 127 / 2 at most.
double bound_for(DType dtype, PanelLayout layout) {
  if (layout == PanelLayout::kI8G32) return 0.03;
  return dtype == DType::kBF16 ? 0.015 : 2e-5;
}

class ExpandedAttention : public ::testing::TestWithParam<std::tuple<DType, PanelLayout>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  PanelLayout layout() const { return std::get<1>(GetParam()); }
};

TEST_P(ExpandedAttention, EqualsTheReference) {
  std::mt19937 random(1);
  for (const Case& c : cases()) {
    SCOPED_TRACE(describe(c));
    const Scene scene(dtype(), layout(), c, random);
    EXPECT_TRUE(near(scene.run(2, 0.3f), scene.reference(0.3f), bound_for(dtype(), layout())));
  }
}

TEST_P(ExpandedAttention, SameBitsForEveryThreadCountAndCut) {
  std::mt19937 random(2);
  for (const Case& c : {Case{.length = 2 * kBlock + 40, .rows = 77},
                        Case{.heads = 3, .length = kBlock + 60, .rows = kBlock + 60},
                        Case{2, 64, 33, 8, 47, kBlock + 2, 5}}) {
    SCOPED_TRACE(describe(c));
    const Scene scene(dtype(), layout(), c, random);
    const std::vector<float> one = scene.run(1, 0.5f);
    for (int threads : {2, 3}) {
      EXPECT_TRUE(same_bits(scene.run(threads, 0.5f), one)) << threads << " threads";
    }
    for (std::int64_t chunk : {1, 7, 16, 50}) {
      std::vector<float> cut;
      for (std::int64_t first = 0; first < c.rows; first += chunk) {
        const std::vector<float> part = scene.run(2, first, std::min(chunk, c.rows - first), 0.5f);
        cut.insert(cut.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(same_bits(cut, one)) << "chunks of " << chunk;
    }
  }
}

// What a token keeps is read by it and by later ones alone.
TEST_P(ExpandedAttention, EarlierRowsDoNotSeeLaterTokens) {
  std::mt19937 random(3);
  const Case c{.length = kBlock + 30, .rows = 50};
  Scene scene(dtype(), layout(), c, random);
  const std::vector<float> before = scene.run(2, 0.5f);
  constexpr std::int64_t kChanged = 22;  // row of the token
  scene.set_token(c.length - c.rows + kChanged, random);
  const std::vector<float> after = scene.run(2, 0.5f);
  const auto row = static_cast<std::size_t>(c.heads * c.v);
  for (std::size_t r = 0; r < static_cast<std::size_t>(c.rows); ++r) {
    const bool same =
        same_bits(std::span(after).subspan(r * row, row), std::span(before).subspan(r * row, row));
    EXPECT_EQ(same, r < kChanged) << "row " << r;
  }
}

// One token has nearly all of the weight, another one for every head and row.
TEST(ExpandedAttentionInFp32, SharpScoresSelect) {
  std::mt19937 random(4);
  const Case c{.length = kBlock + 44, .rows = 44};
  const Scene scene(DType::kF32, PanelLayout::kF32, c, random);
  EXPECT_TRUE(near(scene.run(2, 300), scene.reference(300), 0x1p-8 + 1e-3));
}

// Scores beyond what exp takes, the largest in the last token or the first.
TEST_P(ExpandedAttention, HugeScoresDoNotOverflow) {
  std::mt19937 random(5);
  const Case c{.length = kBlock + 3, .rows = 3};
  const Scene scene(dtype(), layout(), c, random);
  for (const float value : scene.run(1, 1e6f)) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(ExpandedAttention, NanStaysInItsRowAndHead) {
  std::mt19937 random(6);
  const Case c{.heads = 3, .length = kBlock + 20, .rows = 20};
  const Scene scene(dtype(), layout(), c, random);
  const std::vector<float> clean = scene.run(1, 0.5f);
  scene.query().row(4)[2 * 24 + 3] = testing::kPoison;  // the last head of row 4
  const std::vector<float> got = scene.run(1, 0.5f);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool is_spoilt = i / 16 == 4 * 3 + 2;
    EXPECT_EQ(std::isnan(got[i]), is_spoilt) << i;
    if (!is_spoilt) {
      EXPECT_EQ(got[i], clean[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExpandedAttention,
                         ::testing::Values(std::tuple(DType::kF32, PanelLayout::kF32),
                                           std::tuple(DType::kBF16, PanelLayout::kBF16),
                                           std::tuple(DType::kBF16, PanelLayout::kI8G32)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", to_string(std::get<0>(info.param)),
                                              to_string(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace tessera::ops
