#include "ops/mla_attention/mla_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/half.h"
#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::near;
using testing::PaddedRows;
using testing::same_bits;

constexpr std::int64_t kPageTokens = 64;

// A layer's cache of NaN, into which sequences are written page by page.
class PoisonedCache {
 public:
  PoisonedCache(DType dtype, std::int64_t latent, std::int64_t rope, std::int32_t n_pages)
      : memory_(static_cast<std::size_t>(n_pages * kPageTokens * (latent + rope)) *
                    size_in_bytes(dtype),
                std::byte{0xff}),
        pages_{memory_.data(), dtype, kPageTokens, latent, rope} {}

  const LatentPages& pages() const { return pages_; }

  void set(std::int32_t page, std::int64_t slot, std::span<const float> row) {
    auto* to = const_cast<std::byte*>(pages_.page(page)) +
               static_cast<std::size_t>(slot * pages_.row_values()) * size_in_bytes(pages_.dtype);
    convert(row.data(), DType::kF32, to, pages_.dtype, row.size());
  }
  void fill(std::span<const std::int32_t> pages, std::int64_t length, std::mt19937& random) {
    std::vector<float> row(static_cast<std::size_t>(pages_.row_values()));
    for (std::int64_t t = 0; t < length; ++t) {
      for (float& value : row) value = testing::random_value(random);
      set(pages[static_cast<std::size_t>(t / kPageTokens)], t % kPageTokens, row);
    }
  }

 private:
  std::vector<std::byte> memory_;
  LatentPages pages_;
};

// Dividing by the sum, weights of bf16 move an average of values in [-1, 1] by up to 2^-9 times the
// distance of 2. Queries are rounded beforehand.
double bound_for(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-8 + 1e-5 : 1e-5;
}

void round_to_bf16(const Rows& rows) {
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    for (float& value : rows.row(r)) value = to_float(to_bf16(value));
  }
}

// Every page but the last few is named, back to front.
std::vector<std::int32_t> pages_for(std::int64_t length) {
  std::vector<std::int32_t> pages;
  for (std::int64_t i = (length + kPageTokens - 1) / kPageTokens; i > 0; --i) {
    pages.push_back(static_cast<std::int32_t>(i));
  }
  return pages;
}

struct Case {
  std::int64_t heads;
  std::int64_t latent;
  std::int64_t rope;
  std::vector<std::int64_t> lengths;  // of each row
};

// A sequence as long as the longest row, in a cache of NaN; all rows look at it.
class Scene {
 public:
  Scene(DType dtype, const Case& c, std::mt19937& random)
      : case_(c),
        pages_(pages_for(std::ranges::max(c.lengths))),
        cache_(dtype, c.latent, c.rope, static_cast<std::int32_t>(std::ssize(pages_)) + 2),
        query_(std::ssize(c.lengths), c.heads * (c.latent + c.rope)) {
    cache_.fill(pages_, std::ranges::max(c.lengths), random);
    query_.fill(random);
    round_to_bf16(query_.rows());
  }

  const LatentPages& cache() const { return cache_.pages(); }
  const Rows& query() const { return query_.rows(); }
  ConstHeads heads() const { return query_.heads(case_.heads); }
  std::vector<VisibleTokens> visible() const {
    std::vector<VisibleTokens> all;
    for (std::int64_t length : case_.lengths) all.push_back({pages_, length});
    return all;
  }

  // Rows [first, first + n), on that many threads.
  std::vector<float> run(int threads, std::int64_t first, std::int64_t n, float scale) const {
    testing::AlwaysParallel executor(threads);
    PaddedRows query(n, query_.rows().columns);
    for (std::int64_t r = 0; r < n; ++r) {
      std::ranges::copy(query_.rows().row(first + r), query.rows().row(r).begin());
    }
    PaddedRows out(n, case_.heads * case_.latent);
    const std::vector<VisibleTokens> all = visible();
    mla_attention(
        query.heads(case_.heads), cache(),
        std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)), scale,
        out.heads(case_.heads), executor);
    EXPECT_TRUE(out.guards_intact());
    return out.values();
  }
  std::vector<float> run(int threads, float scale) const {
    return run(threads, 0, query_.rows().rows, scale);
  }
  std::vector<float> reference(float scale) const {
    PaddedRows out(query_.rows().rows, case_.heads * case_.latent);
    mla_attention_reference(heads(), cache(), visible(), scale, out.heads(case_.heads));
    return out.values();
  }

 private:
  Case case_;
  std::vector<std::int32_t> pages_;
  PoisonedCache cache_;
  PaddedRows query_;
};

std::string describe(const Case& c) {
  return fmt::format("{} heads, {} + {} values, {} rows of {} tokens", c.heads, c.latent, c.rope,
                     c.lengths.size(), c.lengths.front());
}

// Around pages, blocks and pieces, vectors of 4, 8 and 16 lanes, and groups of 16 heads.
std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<std::int64_t> lengths = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129};
  for (const auto& [latent, rope] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 2}, {2, 0}, {15, 2}, {14, 2}, {16, 4}, {31, 6}, {32, 8}, {47, 3}, {50, 10}}) {
    all.push_back({3, latent, rope, lengths});
  }
  for (std::int64_t heads : {1, 2, 15, 16, 17, 33, 128})
    all.push_back({heads, 32, 8, {65, 2, 129}});
  all.push_back({16, 512, 64, {1, 63, 64, 65, 127, 128, 129, 1000}});
  all.push_back({2, 512, 64, {4097}});
  all.push_back({17, 32, 8, {1000, 1024, 1025, 4097}});
  all.push_back({1, 32, 8, {8192, 8193, 9000}});
  Case many{2, 32, 8, {}};
  for (std::int64_t r = 0; r < 64; ++r) many.lengths.push_back(1 + (r * 37) % 300);
  all.push_back(many);
  return all;
}

class MlaAttention : public ::testing::TestWithParam<DType> {};

TEST_P(MlaAttention, EqualsTheReference) {
  std::mt19937 random(1);
  for (const Case& c : cases()) {
    SCOPED_TRACE(describe(c));
    const Scene scene(GetParam(), c, random);
    EXPECT_TRUE(near(scene.run(2, 0.3f), scene.reference(0.3f), bound_for(GetParam())));
  }
}

// One token has nearly all of the weight, another one for every head and row.
TEST_P(MlaAttention, SharpScoresSelect) {
  std::mt19937 random(2);
  for (const Case& c : {Case{17, 32, 8, {129, 40, 300}}, Case{16, 512, 64, {129}}}) {
    SCOPED_TRACE(describe(c));
    const Scene scene(GetParam(), c, random);
    const std::vector<float> got = scene.run(1, 300);
    const std::vector<float> expected = scene.reference(300);
    EXPECT_TRUE(near(got, expected, 0x1p-8 + 1e-3));
    std::size_t equal = 0;  // nearly all are the row of a token
    for (std::size_t i = 0; i < got.size(); ++i) equal += std::abs(got[i] - expected[i]) < 1e-6;
    EXPECT_GT(equal, got.size() * 3 / 4);
  }
}

TEST_P(MlaAttention, SameBitsForEveryThreadCountAndAlone) {
  std::mt19937 random(3);
  Case many{2, 32, 8, {}};
  for (std::int64_t r = 0; r < 64; ++r) many.lengths.push_back(1 + (r * 37) % 300);
  for (const Case& c : {Case{17, 24, 8, {100, 1, 1000, 129, 4097}}, Case{16, 512, 64, {129, 65}},
                        Case{1, 32, 8, {8193, 3}}, many}) {
    SCOPED_TRACE(describe(c));
    const Scene scene(GetParam(), c, random);
    const std::vector<float> one = scene.run(1, 0.5f);
    for (int threads : {2, 3}) {
      EXPECT_TRUE(same_bits(scene.run(threads, 0.5f), one)) << threads << " threads";
    }
    const std::size_t row_size = one.size() / c.lengths.size();
    for (std::size_t r = 0; r < c.lengths.size(); ++r) {
      const std::vector<float> alone = scene.run(1, static_cast<std::int64_t>(r), 1, 0.5f);
      EXPECT_TRUE(same_bits(alone, std::span(one).subspan(r * row_size, row_size))) << "row " << r;
    }
  }
}

TEST_P(MlaAttention, NanStaysInItsHead) {
  std::mt19937 random(4);
  const Case c{18, 32, 8, {70, 5}};
  const Scene scene(GetParam(), c, random);
  const std::vector<float> clean = scene.run(1, 0.5f);
  scene.query().row(0)[17 * 40 + 3] = testing::kPoison;  // the last head of row 0
  const std::vector<float> got = scene.run(1, 0.5f);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool is_spoilt = i / 32 == 17;
    EXPECT_EQ(std::isnan(got[i]), is_spoilt) << i;
    if (!is_spoilt) {
      EXPECT_EQ(got[i], clean[i]) << i;
    }
  }
}

// Pages of an odd number of tokens are for the native implementation.
TEST_P(MlaAttention, OddPagesAreNotGenerated) {
  std::mt19937 random(5);
  constexpr std::int64_t kTokens = 7;
  std::vector<float> values(3 * kTokens * 6);
  for (float& value : values) value = testing::random_value(random);
  std::vector<std::byte> memory(values.size() * size_in_bytes(GetParam()));
  convert(values.data(), DType::kF32, memory.data(), GetParam(), values.size());
  const LatentPages cache{memory.data(), GetParam(), kTokens, 4, 2};
  EXPECT_FALSE(why_not_generated(cache).empty());
  const std::vector<std::int32_t> pages = {2, 0};
  const VisibleTokens visible{pages, 9};
  PaddedRows query(1, 12);
  query.fill(random);
  PaddedRows out(1, 8);
  PaddedRows expected(1, 8);
  testing::AlwaysParallel executor(2);
  mla_attention(query.heads(2), cache, std::span(&visible, 1), 1, out.heads(2), executor);
  mla_attention_reference(query.heads(2), cache, std::span(&visible, 1), 1, expected.heads(2));
  EXPECT_TRUE(near(out.values(), expected.values(), 1e-5));
}

TEST_P(MlaAttention, NativeEqualsTheReference) {
  std::mt19937 random(6);
  for (std::int64_t length : {1, 64, 65, 129}) {
    const Scene scene(GetParam(), {3, 31, 6, {length}}, random);
    testing::AlwaysParallel executor(2);
    PaddedRows out(1, 3 * 31);
    mla_attention_native(scene.heads(), scene.cache(), scene.visible(), 0.3f, out.heads(3),
                         executor);
    EXPECT_TRUE(near(out.values(), scene.reference(0.3f), 1e-5)) << length << " tokens";
    EXPECT_TRUE(out.guards_intact());
  }
}

TEST_P(MlaAttention, NamesBeyondTheLengthAreNotFollowed) {
  std::mt19937 random(2);
  testing::AlwaysParallel executor(1);
  PoisonedCache cache(GetParam(), 8, 2, 3);
  const std::vector<std::int32_t> pages = {2, 0, -1, std::numeric_limits<std::int32_t>::max()};
  cache.fill(pages, 128, random);
  PaddedRows query(1, 10);
  query.fill(random);
  PaddedRows out(1, 8);
  PaddedRows expected(1, 8);
  const VisibleTokens all{pages, 128};
  const VisibleTokens named{std::span(pages).first(2), 128};
  mla_attention(query.heads(1), cache.pages(), std::span(&all, 1), 1, out.heads(1), executor);
  mla_attention(query.heads(1), cache.pages(), std::span(&named, 1), 1, expected.heads(1),
                executor);
  EXPECT_TRUE(same_bits(out.values(), expected.values()));
}

TEST_P(MlaAttention, OneTokenGivesItsLatent) {
  std::mt19937 random(4);
  testing::AlwaysParallel executor(1);
  PoisonedCache cache(GetParam(), 3, 2, 1);
  cache.set(0, 0, std::vector<float>{0.5f, -2, 8, 1, 1});
  const std::vector<std::int32_t> pages = {0};
  const VisibleTokens visible{pages, 1};
  PaddedRows query(1, 5);
  query.fill(random);
  PaddedRows out(1, 3);
  mla_attention(query.heads(1), cache.pages(), std::span(&visible, 1), 1, out.heads(1), executor);
  EXPECT_EQ(out.values(), (std::vector<float>{0.5f, -2, 8}));
}

// Weights that are all 1: whatever the cache's type, only fp32 sums are rounded.
TEST_P(MlaAttention, EqualScoresAverage) {
  testing::AlwaysParallel executor(2);
  constexpr std::int64_t kLatent = 512;
  constexpr std::int64_t kRope = 64;
  for (std::int64_t length : {1, 2, 63, 64, 65, 127, 128, 129, 1000, 4097}) {
    const std::vector<std::int32_t> pages = pages_for(length);
    PoisonedCache cache(GetParam(), kLatent, kRope,
                        static_cast<std::int32_t>(std::ssize(pages)) + 1);
    std::vector<double> sum(kLatent);
    for (std::int64_t t = 0; t < length; ++t) {
      std::vector<float> row(kLatent + kRope, 1.0f);
      for (std::int64_t i = 0; i < kLatent; ++i) {
        // Small multiples of 1/8 are exact in bf16.
        const auto value = static_cast<float>((t * 7 + i * 3) % 31 - 15) / 8;
        row[static_cast<std::size_t>(i)] = value;
        sum[static_cast<std::size_t>(i)] += value;
      }
      cache.set(pages[static_cast<std::size_t>(t / kPageTokens)], t % kPageTokens, row);
    }
    std::vector<float> expected;
    for (double value : sum) {
      expected.push_back(static_cast<float>(value / static_cast<double>(length)));
    }
    const VisibleTokens visible{pages, length};
    PaddedRows query(1, kLatent + kRope);
    std::vector<float> values(kLatent + kRope, 0.0f);
    values.back() = -3;  // the same score for every token
    query.fill(values);
    PaddedRows out(1, kLatent);
    mla_attention(query.heads(1), cache.pages(), std::span(&visible, 1), 1, out.heads(1), executor);
    EXPECT_TRUE(near(out.values(), expected, 1e-6)) << length << " tokens";
  }
}

TEST_P(MlaAttention, KnownWeights) {
  testing::AlwaysParallel executor(1);
  PoisonedCache cache(GetParam(), 1, 2, 1);
  cache.set(0, 0, std::vector<float>{8, 0, 0});
  cache.set(0, 1, std::vector<float>{4, 1, 0});
  const std::vector<std::int32_t> pages = {0};
  const VisibleTokens visible{pages, 2};
  PaddedRows query(1, 3);
  query.fill(std::vector<float>{0, 2, 5});
  PaddedRows out(1, 1);
  // Scores 0 and 0.549306 * 2 = ln 3: weights 1/4 and 3/4.
  mla_attention(query.heads(1), cache.pages(), std::span(&visible, 1), 0.54930614f, out.heads(1),
                executor);
  // A weight rounded to bf16 moves the average of 8 and 4 by up to 2^-9 * 3.
  const double bound = GetParam() == DType::kBF16 ? 3 * 0x1p-9 : 1e-5;
  EXPECT_NEAR(out.values().front(), 8 * 0.25 + 4 * 0.75, bound);
}

TEST_P(MlaAttention, HugeScoresDoNotOverflow) {
  testing::AlwaysParallel executor(1);
  PoisonedCache cache(GetParam(), 1, 2, 1);
  cache.set(0, 0, std::vector<float>{1, -64, 0});
  cache.set(0, 1, std::vector<float>{2, 64, 0});
  cache.set(0, 2, std::vector<float>{3, 32, 0});
  const std::vector<std::int32_t> pages = {0};
  const VisibleTokens visible{pages, 3};
  PaddedRows query(1, 3);
  query.fill(std::vector<float>{0, 1000, 0});
  PaddedRows out(1, 1);
  mla_attention(query.heads(1), cache.pages(), std::span(&visible, 1), 1, out.heads(1), executor);
  EXPECT_EQ(out.values().front(), 2);
}

TEST_P(MlaAttention, NoRowsWriteNothing) {
  testing::AlwaysParallel executor(2);
  PoisonedCache cache(GetParam(), 4, 2, 1);
  PaddedRows query(0, 6);
  PaddedRows out(0, 4);
  mla_attention(query.heads(1), cache.pages(), {}, 1, out.heads(1), executor);
  EXPECT_TRUE(out.guards_intact());
}

INSTANTIATE_TEST_SUITE_P(All, MlaAttention, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace tessera::ops
