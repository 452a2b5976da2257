#include "ops/mha_attention/mha_attention.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/ops/support.h"

namespace tessera::ops {
namespace {

using testing::near;
using testing::PaddedRows;
using testing::same_bits;

constexpr std::int64_t kPageTokens = 64;

struct Dims {
  std::int64_t heads, nope, rope, v;
};

// A layer's cache of NaN, into which sequences are written page by page. Every array has exactly
// its size, so that a sanitizer sees what reads past it.
class PoisonedCache {
 public:
  PoisonedCache(DType dtype, const Dims& d, std::int32_t n_pages)
      : k_nope_(poison(dtype, n_pages * d.heads * kPageTokens * d.nope)),
        value_(poison(dtype, n_pages * d.heads * kPageTokens * d.v)),
        k_pe_(poison(dtype, n_pages * kPageTokens * d.rope)),
        pages_{k_nope_.data(), value_.data(), k_pe_.data(), dtype, kPageTokens,
               d.heads,        d.nope,        d.rope,       d.v} {}

  const ExpandedPages& pages() const { return pages_; }

  // [nope], [v] of one head of one token, and the [rope] of the token.
  void set_key(std::int32_t page, std::int64_t head, std::int64_t slot,
               std::span<const float> row) {
    store(pages_.keys(page, head), slot, row);
  }
  void set_value(std::int32_t page, std::int64_t head, std::int64_t slot,
                 std::span<const float> row) {
    store(pages_.values(page, head), slot, row);
  }
  void set_shared(std::int32_t page, std::int64_t slot, std::span<const float> row) {
    store(pages_.shared_keys(page), slot, row);
  }

  void fill(std::span<const std::int32_t> pages, std::int64_t length, std::mt19937& random) {
    const auto drawn = [&](std::int64_t n) {
      std::vector<float> row(static_cast<std::size_t>(n));
      for (float& value : row) value = testing::random_value(random);
      return row;
    };
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int32_t page = pages[static_cast<std::size_t>(t / kPageTokens)];
      for (std::int64_t h = 0; h < pages_.heads; ++h) {
        set_key(page, h, t % kPageTokens, drawn(pages_.nope_dim));
        set_value(page, h, t % kPageTokens, drawn(pages_.v_dim));
      }
      set_shared(page, t % kPageTokens, drawn(pages_.rope_dim));
    }
  }

 private:
  static std::vector<std::byte> poison(DType dtype, std::int64_t n) {
    return std::vector<std::byte>(static_cast<std::size_t>(n) * size_in_bytes(dtype),
                                  std::byte{0xff});
  }
  void store(const std::byte* rows, std::int64_t slot, std::span<const float> row) {
    convert(row.data(), DType::kF32,
            const_cast<std::byte*>(rows) +
                static_cast<std::size_t>(slot) * row.size() * size_in_bytes(pages_.dtype),
            pages_.dtype, row.size());
  }

  std::vector<std::byte> k_nope_;
  std::vector<std::byte> value_;
  std::vector<std::byte> k_pe_;
  ExpandedPages pages_;
};

class MhaAttention : public ::testing::TestWithParam<DType> {};

TEST_P(MhaAttention, EqualsTheReferenceAtEveryTail) {
  std::mt19937 random(1);
  testing::AlwaysParallel executor(2);
  for (const Dims& d : std::vector<Dims>{{3, 1, 2, 1},
                                         {2, 15, 2, 17},
                                         {3, 16, 4, 16},
                                         {1, 17, 6, 15},
                                         {2, 31, 16, 33},
                                         {4, 128, 64, 128}}) {
    for (std::int64_t length : {1, 63, 64, 65, 129}) {
      SCOPED_TRACE(fmt::format("{} heads of {} + {} and {} values, {} tokens", d.heads, d.nope,
                               d.rope, d.v, length));
      PoisonedCache cache(GetParam(), d, 5);
      const std::vector<std::int32_t> pages = {4, 1, 3};
      cache.fill(pages, length, random);
      PaddedRows query(2, d.heads * (d.nope + d.rope));
      query.fill(random);
      PaddedRows out(2, d.heads * d.v);
      PaddedRows expected(2, d.heads * d.v);
      // The second query sees one token less where there is one.
      const std::vector<VisibleTokens> visible = {{pages, length},
                                                  {pages, std::max<std::int64_t>(length - 1, 1)}};
      mha_attention(query.heads(d.heads), cache.pages(), visible, 0.3f, out.heads(d.heads),
                    executor);
      mha_attention_reference(query.heads(d.heads), cache.pages(), visible, 0.3f,
                              expected.heads(d.heads));
      EXPECT_TRUE(near(out.values(), expected.values(), 1e-5));
      EXPECT_TRUE(out.guards_intact());
    }
  }
}

TEST_P(MhaAttention, NamesBeyondTheLengthAreNotFollowed) {
  std::mt19937 random(2);
  testing::AlwaysParallel executor(1);
  PoisonedCache cache(GetParam(), {1, 8, 2, 4}, 3);
  const std::vector<std::int32_t> pages = {2, 0, -1, std::numeric_limits<std::int32_t>::max()};
  cache.fill(pages, 128, random);
  PaddedRows query(1, 10);
  query.fill(random);
  PaddedRows out(1, 4);
  PaddedRows expected(1, 4);
  const VisibleTokens all{pages, 128};
  const VisibleTokens named{std::span(pages).first(2), 128};
  mha_attention(query.heads(1), cache.pages(), std::span(&all, 1), 1, out.heads(1), executor);
  mha_attention_reference(query.heads(1), cache.pages(), std::span(&named, 1), 1,
                          expected.heads(1));
  EXPECT_TRUE(near(out.values(), expected.values(), 1e-5));
}

TEST_P(MhaAttention, SameBitsForEveryThreadCountAndAlone) {
  std::mt19937 random(3);
  constexpr Dims kDims{5, 24, 8, 20};
  PoisonedCache cache(GetParam(), kDims, 4);
  const std::vector<std::int32_t> first = {3, 0};
  const std::vector<std::int32_t> second = {1};
  cache.fill(first, 100, random);
  cache.fill(second, 20, random);
  PaddedRows query(3, kDims.heads * 32);
  query.fill(random);
  const std::vector<VisibleTokens> visible = {{first, 100}, {second, 20}, {first, 7}};
  std::vector<float> one;
  for (int threads : {1, 2, 3}) {
    testing::AlwaysParallel executor(threads);
    PaddedRows out(3, kDims.heads * kDims.v);
    mha_attention(query.heads(kDims.heads), cache.pages(), visible, 0.5f, out.heads(kDims.heads),
                  executor);
    if (threads == 1) one = out.values();
    EXPECT_TRUE(same_bits(out.values(), one)) << threads << " threads";
  }
  for (std::size_t r = 0; r < 3; ++r) {
    testing::AlwaysParallel executor(1);
    PaddedRows row(1, kDims.heads * 32);
    row.fill(query.rows().row(static_cast<std::int64_t>(r)));
    PaddedRows out(1, kDims.heads * kDims.v);
    mha_attention(row.heads(kDims.heads), cache.pages(), std::span(visible).subspan(r, 1), 0.5f,
                  out.heads(kDims.heads), executor);
    EXPECT_TRUE(same_bits(out.values(), std::span(one).subspan(r * 100, 100))) << "row " << r;
  }
}

TEST_P(MhaAttention, OneTokenGivesItsValues) {
  std::mt19937 random(4);
  testing::AlwaysParallel executor(1);
  PoisonedCache cache(GetParam(), {2, 1, 2, 3}, 1);
  const std::vector<std::int32_t> pages = {0};
  cache.fill(pages, 1, random);
  cache.set_value(0, 0, 0, std::vector<float>{0.5f, -2, 8});
  cache.set_value(0, 1, 0, std::vector<float>{1, 4, -16});
  const VisibleTokens visible{pages, 1};
  PaddedRows query(1, 6);
  query.fill(random);
  PaddedRows out(1, 6);
  mha_attention(query.heads(2), cache.pages(), std::span(&visible, 1), 1, out.heads(2), executor);
  EXPECT_EQ(out.values(), (std::vector<float>{0.5f, -2, 8, 1, 4, -16}));
}

TEST_P(MhaAttention, KnownWeights) {
  testing::AlwaysParallel executor(1);
  PoisonedCache cache(GetParam(), {1, 1, 2, 1}, 2);
  const std::vector<std::int32_t> pages = {1, 0};
  // Of 65 tokens the first and the last count: scores 0 and ln 3, half of it from either part of
  // the key. The others are far below.
  for (std::int64_t t = 0; t < 65; ++t) {
    const std::int32_t page = pages[static_cast<std::size_t>(t / kPageTokens)];
    const bool last = t == 64;
    const float far = t > 0 && !last ? -512.0f : 0.0f;
    cache.set_key(page, 0, t % kPageTokens, std::vector<float>{last ? 1.0f : far});
    cache.set_shared(page, t % kPageTokens, std::vector<float>{0, last ? 0.5f : far});
    cache.set_value(page, 0, t % kPageTokens, std::vector<float>{t == 0 ? 8.0f : 4.0f});
  }
  const VisibleTokens visible{pages, 65};
  PaddedRows query(1, 3);
  query.fill(std::vector<float>{1, 7, 2});
  PaddedRows out(1, 1);
  mha_attention(query.heads(1), cache.pages(), std::span(&visible, 1), 0.54930614f, out.heads(1),
                executor);
  EXPECT_NEAR(out.values().front(), 8 * 0.25 + 4 * 0.75, 1e-5);
}

// In either order: the largest score in the first page, or in the last.
TEST_P(MhaAttention, HugeScoresDoNotOverflow) {
  for (const std::int64_t largest : {3, 127}) {
    testing::AlwaysParallel executor(1);
    PoisonedCache cache(GetParam(), {1, 1, 2, 1}, 2);
    const std::vector<std::int32_t> pages = {0, 1};
    for (std::int64_t t = 0; t < 128; ++t) {
      const std::int32_t page = pages[static_cast<std::size_t>(t / kPageTokens)];
      const bool is_largest = t == largest;
      cache.set_key(page, 0, t % kPageTokens, std::vector<float>{0});
      cache.set_shared(page, t % kPageTokens,
                       std::vector<float>{is_largest ? 64.0f : static_cast<float>(t % 32), 0});
      cache.set_value(page, 0, t % kPageTokens, std::vector<float>{is_largest ? 2.0f : -1.0f});
    }
    const VisibleTokens visible{pages, 128};
    PaddedRows query(1, 3);
    query.fill(std::vector<float>{0, 1000, 0});
    PaddedRows out(1, 1);
    mha_attention(query.heads(1), cache.pages(), std::span(&visible, 1), 1, out.heads(1), executor);
    EXPECT_EQ(out.values().front(), 2) << "largest at " << largest;
  }
}

TEST_P(MhaAttention, NoRowsWriteNothing) {
  testing::AlwaysParallel executor(2);
  PoisonedCache cache(GetParam(), {1, 4, 2, 4}, 1);
  PaddedRows query(0, 6);
  PaddedRows out(0, 4);
  mha_attention(query.heads(1), cache.pages(), {}, 1, out.heads(1), executor);
  EXPECT_TRUE(out.guards_intact());
}

INSTANTIATE_TEST_SUITE_P(All, MhaAttention, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace tessera::ops
