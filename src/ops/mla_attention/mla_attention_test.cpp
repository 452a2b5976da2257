#include "ops/mla_attention/mla_attention.h"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

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

class MlaAttention : public ::testing::TestWithParam<DType> {};

TEST_P(MlaAttention, EqualsTheReferenceAtEveryTail) {
  std::mt19937 random(1);
  Executor executor(2);
  for (const auto& [latent, rope] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 2}, {15, 2}, {14, 2}, {16, 4}, {31, 6}, {512, 64}}) {
    for (std::int64_t length : {1, 63, 64, 65, 129}) {
      SCOPED_TRACE(fmt::format("{} + {} values, {} tokens", latent, rope, length));
      constexpr std::int64_t kHeads = 3;
      PoisonedCache cache(GetParam(), latent, rope, 5);
      const std::vector<std::int32_t> pages = {4, 1, 3};
      cache.fill(pages, length, random);
      PaddedRows query(2, kHeads * (latent + rope));
      query.fill(random);
      PaddedRows out(2, kHeads * latent);
      PaddedRows expected(2, kHeads * latent);
      // The second query sees one token less where there is one.
      const std::vector<VisibleTokens> visible = {{pages, length},
                                                  {pages, std::max<std::int64_t>(length - 1, 1)}};
      mla_attention(query.heads(kHeads), cache.pages(), visible, 0.3f, out.heads(kHeads), executor);
      mla_attention_reference(query.heads(kHeads), cache.pages(), visible, 0.3f,
                              expected.heads(kHeads));
      EXPECT_TRUE(near(out.values(), expected.values(), 1e-5));
      EXPECT_TRUE(out.guards_intact());
    }
  }
}

TEST_P(MlaAttention, NamesBeyondTheLengthAreNotFollowed) {
  std::mt19937 random(2);
  Executor executor(1);
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

TEST_P(MlaAttention, SameBitsForEveryThreadCountAndAlone) {
  std::mt19937 random(3);
  PoisonedCache cache(GetParam(), 24, 8, 4);
  const std::vector<std::int32_t> first = {3, 0};
  const std::vector<std::int32_t> second = {1};
  cache.fill(first, 100, random);
  cache.fill(second, 20, random);
  constexpr std::int64_t kHeads = 5;
  PaddedRows query(3, kHeads * 32);
  query.fill(random);
  const std::vector<VisibleTokens> visible = {{first, 100}, {second, 20}, {first, 7}};
  std::vector<float> one;
  for (int threads : {1, 2, 3}) {
    Executor executor(threads);
    PaddedRows out(3, kHeads * 24);
    mla_attention(query.heads(kHeads), cache.pages(), visible, 0.5f, out.heads(kHeads), executor);
    if (threads == 1) one = out.values();
    EXPECT_TRUE(same_bits(out.values(), one)) << threads << " threads";
  }
  for (std::int64_t r = 0; r < 3; ++r) {
    Executor executor(1);
    PaddedRows row(1, kHeads * 32);
    row.fill(query.rows().row(r));
    PaddedRows out(1, kHeads * 24);
    mla_attention(row.heads(kHeads), cache.pages(),
                  std::span(visible).subspan(static_cast<std::size_t>(r), 1), 0.5f,
                  out.heads(kHeads), executor);
    EXPECT_TRUE(
        same_bits(out.values(), std::span(one).subspan(static_cast<std::size_t>(r) * 120, 120)))
        << "row " << r;
  }
}

TEST_P(MlaAttention, OneTokenGivesItsLatent) {
  std::mt19937 random(4);
  Executor executor(1);
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

TEST_P(MlaAttention, EqualScoresAverage) {
  Executor executor(1);
  PoisonedCache cache(GetParam(), 2, 2, 2);
  const std::vector<std::int32_t> pages = {1, 0};
  for (std::int64_t t = 0; t < 128; ++t) {
    const auto value = static_cast<float>(t);
    cache.set(pages[static_cast<std::size_t>(t / 64)], t % 64,
              std::vector{value, -value, 1.0f, 2.0f});
  }
  const VisibleTokens visible{pages, 128};
  PaddedRows query(1, 4);
  query.fill(std::vector<float>{0, 0, 3, -1});  // the same score for every token: 1
  PaddedRows out(1, 2);
  mla_attention(query.heads(1), cache.pages(), std::span(&visible, 1), 1, out.heads(1), executor);
  EXPECT_TRUE(near(out.values(), std::vector<float>{63.5f, -63.5f}, 1e-4));
}

TEST_P(MlaAttention, KnownWeights) {
  Executor executor(1);
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
  EXPECT_NEAR(out.values().front(), 8 * 0.25 + 4 * 0.75, 1e-5);
}

TEST_P(MlaAttention, HugeScoresDoNotOverflow) {
  Executor executor(1);
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
  Executor executor(2);
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
