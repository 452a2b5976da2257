#include "model/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tessera/error.h>

#include "base/convert.h"
#include "base/machine.h"
#include "tests/io/expect_error.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;

constexpr std::int64_t kPage = KvCache::kPageTokens;

ModelConfig small_config() {
  ModelConfig config;
  config.n_layers = 2;
  config.kv_lora_rank = 3;
  config.qk_rope_dim = 2;
  config.n_heads = 2;
  config.qk_nope_dim = 3;
  config.v_dim = 4;
  return config;
}

KvCache cache_of_pages(std::int64_t n_pages, DType dtype = DType::kF32) {
  return KvCache(small_config(), dtype, n_pages * kPage);
}

std::vector<std::int32_t> pages_of(const KvCache& cache, SequenceId id) {
  const auto pages = cache.visible(id, cache.length(id)).pages;
  return {pages.begin(), pages.end()};
}

TEST(KvCache, BytesAreRowsOfWholePages) {
  const ModelConfig config = small_config();  // 5 values a row, 2 layers
  EXPECT_EQ(KvCache::bytes_for(config, DType::kF32, 0), 0u);
  EXPECT_EQ(KvCache::bytes_for(config, DType::kF32, 1), 64u * 5 * 4 * 2);
  EXPECT_EQ(KvCache::bytes_for(config, DType::kF32, 64), 64u * 5 * 4 * 2);
  EXPECT_EQ(KvCache::bytes_for(config, DType::kF32, 65), 128u * 5 * 4 * 2);
  EXPECT_EQ(KvCache::bytes_for(config, DType::kBF16, 65), 128u * 5 * 2 * 2);
}

TEST(KvCache, DeepSeekV2LiteTakes31104BytesAToken) {
  ModelConfig lite;
  lite.n_layers = 27;
  lite.kv_lora_rank = 512;
  lite.qk_rope_dim = 64;
  EXPECT_EQ(KvCache::bytes_for(lite, DType::kBF16, 64), 64u * 31104);
}

TEST(KvCache, ExpandedBytesAreThoseOfEveryHead) {
  const ModelConfig config = small_config();  // 2 heads of 3 + 4 values, 2 for all; 2 layers
  EXPECT_EQ(KvCache::bytes_for(config, DType::kF32, 1, KvCacheForm::kExpanded), 64u * 16 * 4 * 2);
  EXPECT_EQ(KvCache::bytes_for(config, DType::kBF16, 65, KvCacheForm::kExpanded),
            128u * 16 * 2 * 2);
  ModelConfig lite;
  lite.n_layers = 27;
  lite.n_heads = 16;
  lite.qk_nope_dim = 128;
  lite.v_dim = 128;
  lite.qk_rope_dim = 64;
  EXPECT_EQ(KvCache::bytes_for(lite, DType::kBF16, 64, KvCacheForm::kExpanded), 64u * 224640);
}

TEST(KvCache, TakesAPageForEveryStarted64Tokens) {
  KvCache cache = cache_of_pages(3);
  const SequenceId s = cache.add_sequence();
  EXPECT_EQ(cache.free_pages(), 3);
  cache.extend(s, 1);
  EXPECT_EQ(cache.free_pages(), 2);
  EXPECT_EQ(cache.pages_to_extend(s, kPage - 1), 0);
  cache.extend(s, kPage - 1);
  EXPECT_EQ(cache.free_pages(), 2);
  EXPECT_EQ(cache.pages_to_extend(s, 1), 1);
  cache.extend(s, kPage + 1);
  EXPECT_EQ(cache.free_pages(), 0);
  EXPECT_EQ(cache.length(s), 2 * kPage + 1);
}

TEST(KvCache, PagesBelongToOneSequenceAtATime) {
  KvCache cache = cache_of_pages(6);
  const SequenceId a = cache.add_sequence();
  const SequenceId b = cache.add_sequence();
  const SequenceId c = cache.add_sequence();
  for (int i = 0; i < 2; ++i) {  // in turns, so that pages interleave
    for (SequenceId s : {a, b, c}) cache.extend(s, kPage);
  }
  std::set<std::int32_t> distinct;
  for (SequenceId s : {a, b, c}) {
    for (std::int32_t page : pages_of(cache, s)) {
      EXPECT_GE(page, 0);
      EXPECT_LT(page, 6);
      distinct.insert(page);
    }
  }
  EXPECT_EQ(distinct.size(), 6u);
}

TEST(KvCache, PagesComeBackWhenASequenceGoes) {
  KvCache cache = cache_of_pages(4);
  const SequenceId a = cache.add_sequence();
  const SequenceId b = cache.add_sequence();
  cache.extend(a, 2 * kPage);
  cache.extend(b, kPage);
  const auto kept = pages_of(cache, b);
  cache.remove_sequence(a);
  EXPECT_EQ(cache.free_pages(), 3);
  EXPECT_EQ(pages_of(cache, b), kept);
  const SequenceId c = cache.add_sequence();
  EXPECT_EQ(cache.length(c), 0);
  cache.extend(c, 3 * kPage);
  EXPECT_THAT(pages_of(cache, c), ::testing::Not(::testing::Contains(kept.front())));
}

TEST(KvCache, SequencesInUseHaveDifferentIds) {
  KvCache cache = cache_of_pages(1);
  const SequenceId a = cache.add_sequence();
  const SequenceId b = cache.add_sequence();
  cache.remove_sequence(a);
  const SequenceId c = cache.add_sequence();
  EXPECT_NE(a, b);
  EXPECT_NE(b, c);
}

TEST(KvCache, ExtendsAsAskedOrNotAtAll) {
  KvCache cache = cache_of_pages(2);
  const SequenceId a = cache.add_sequence();
  const SequenceId b = cache.add_sequence();
  cache.extend(a, 10);
  cache.extend(b, 5);
  const auto before = pages_of(cache, a);
  cache.remove_sequence(b);
  EXPECT_ERROR(cache.extend(a, 2 * kPage), ErrorCode::kContextOverflow,
               "the KV cache is full: a sequence of 10 tokens needs 128 more, and 64 are free; use "
               "a larger --context");
  EXPECT_EQ(cache.length(a), 10);
  EXPECT_EQ(pages_of(cache, a), before);
  EXPECT_EQ(cache.free_pages(), 1);
}

// Whole numbers below 256: bf16 holds them exactly.
std::vector<float> numbered_rows(std::int64_t n, int first) {
  std::vector<float> values(static_cast<std::size_t>(n * 5));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((first + static_cast<int>(i)) % 256);
  }
  return values;
}

// Row t of a sequence, as attention finds it.
std::vector<float> row_in_cache(const KvCache& cache, std::int64_t layer, SequenceId s,
                                std::int64_t t) {
  const ops::LatentPages pages = cache.layer(layer);
  const ops::VisibleTokens visible = cache.visible(s, cache.length(s));
  const std::int32_t page = visible.pages[static_cast<std::size_t>(t / pages.page_tokens)];
  const std::size_t at = static_cast<std::size_t>(t % pages.page_tokens * pages.row_values()) *
                         size_in_bytes(pages.dtype);
  std::vector<float> row(static_cast<std::size_t>(pages.row_values()));
  convert(pages.page(page) + at, pages.dtype, row.data(), DType::kF32, row.size());
  return row;
}

class KvCacheRows : public ::testing::TestWithParam<DType> {};

TEST_P(KvCacheRows, LandWhereAttentionReadsThem) {
  KvCache cache = cache_of_pages(4, GetParam());
  const SequenceId other = cache.add_sequence();
  cache.extend(other, 1);
  const SequenceId s = cache.add_sequence();
  // 60 tokens, then 10 that cross into the next page, in two layers.
  const auto early = numbered_rows(60, 0);
  const auto late = numbered_rows(10, 100);
  cache.extend(s, 60);
  for (std::int64_t layer : {0, 1}) cache.write(layer, s, 0, {early.data(), 60, 5});
  cache.extend(s, 10);
  cache.write(0, s, 60, {late.data(), 10, 5});
  for (std::int64_t t : {0, 59}) {
    const auto row = std::span(early).subspan(static_cast<std::size_t>(t) * 5, 5);
    EXPECT_THAT(row_in_cache(cache, 0, s, t), ::testing::ElementsAreArray(row));
    EXPECT_THAT(row_in_cache(cache, 1, s, t), ::testing::ElementsAreArray(row));
  }
  for (std::int64_t t : {60, 63, 64, 69}) {
    const auto row = std::span(late).subspan(static_cast<std::size_t>(t - 60) * 5, 5);
    EXPECT_THAT(row_in_cache(cache, 0, s, t), ::testing::ElementsAreArray(row));
  }
}

TEST_P(KvCacheRows, AreWrittenFromStridedMemoryAndTouchNothingElse) {
  KvCache cache = cache_of_pages(2, GetParam());
  for (std::int64_t layer : {0, 1}) {
    const auto raw = cache.raw_layer(layer);
    std::memset(raw.data(), 0xff, raw.size());
  }
  const SequenceId s = cache.add_sequence();
  cache.extend(s, 3);
  std::vector<float> memory(14, std::nanf(""));
  const auto rows = numbered_rows(2, 1);
  std::copy_n(rows.begin(), 5, memory.begin());
  std::copy_n(rows.begin() + 5, 5, memory.begin() + 7);
  cache.write(1, s, 1, {memory.data(), 2, 5, 7});
  EXPECT_THAT(row_in_cache(cache, 1, s, 1), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(row_in_cache(cache, 1, s, 2), ElementsAre(6, 7, 8, 9, 10));
  const auto count_touched = [&](std::int64_t layer) {
    const auto raw = cache.raw_layer(layer);
    std::size_t touched = 0;
    const std::size_t size = size_in_bytes(GetParam());
    for (std::size_t at = 0; at < raw.size(); at += size) {
      const auto element = raw.subspan(at, size);
      touched += std::ranges::count(element, std::byte{0xff}) != std::ssize(element) ? 1u : 0u;
    }
    return touched;
  };
  EXPECT_EQ(count_touched(0), 0u);
  EXPECT_EQ(count_touched(1), 10u);
}

INSTANTIATE_TEST_SUITE_P(All, KvCacheRows, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// What attention finds of a token: per head k_nope and value, then k_pe.
std::vector<float> expanded_in_cache(const KvCache& cache, std::int64_t layer, SequenceId s,
                                     std::int64_t t) {
  const ops::ExpandedPages pages = cache.expanded_layer(layer);
  const std::int32_t page =
      cache.visible(s, cache.length(s)).pages[static_cast<std::size_t>(t / pages.page_tokens)];
  std::vector<float> all;
  const auto read = [&](const std::byte* rows, std::int64_t n) {
    std::vector<float> row(static_cast<std::size_t>(n));
    convert(rows + static_cast<std::size_t>(t % pages.page_tokens * n) * size_in_bytes(pages.dtype),
            pages.dtype, row.data(), DType::kF32, row.size());
    all.insert(all.end(), row.begin(), row.end());
  };
  for (std::int64_t h = 0; h < pages.heads; ++h) {
    read(pages.keys(page, h), pages.nope_dim);
    read(pages.values(page, h), pages.v_dim);
  }
  read(pages.shared_keys(page), pages.rope_dim);
  return all;
}

TEST_P(KvCacheRows, OfAnExpandedCacheLandWhereAttentionReadsThemAndNowhereElse) {
  constexpr std::int64_t kHeadValues = 2 * (3 + 4);
  KvCache cache(small_config(), GetParam(), 4 * kPage, KvCacheForm::kExpanded);
  for (std::int64_t layer : {0, 1}) {
    const auto raw = cache.raw_layer(layer);
    std::memset(raw.data(), 0xff, raw.size());
  }
  const SequenceId other = cache.add_sequence();
  cache.extend(other, 1);
  const SequenceId s = cache.add_sequence();
  cache.extend(s, 70);
  // Ten tokens that cross into the next page, with gaps between the rows.
  constexpr std::int64_t kStride = kHeadValues + 3;
  std::vector<float> memory(10 * kStride, std::nanf(""));
  std::vector<float> k_pe(10 * 2);
  for (std::int64_t t = 0; t < 10; ++t) {
    for (std::int64_t i = 0; i < kHeadValues; ++i) {
      memory[static_cast<std::size_t>(t * kStride + i)] = static_cast<float>(16 * t + i);
    }
    k_pe[static_cast<std::size_t>(2 * t)] = static_cast<float>(16 * t + 14);
    k_pe[static_cast<std::size_t>(2 * t + 1)] = static_cast<float>(16 * t + 15);
  }
  cache.write_expanded(1, s, 60, {memory.data(), 10, kHeadValues, kStride}, {k_pe.data(), 10, 2});
  for (std::int64_t t = 0; t < 10; ++t) {
    std::vector<float> expected(16);
    std::iota(expected.begin(), expected.end(), static_cast<float>(16 * t));
    EXPECT_EQ(expanded_in_cache(cache, 1, s, 60 + t), expected) << t;
  }
  const auto count_touched = [&](std::int64_t layer) {
    const auto raw = cache.raw_layer(layer);
    std::int64_t touched = 0;
    const std::size_t size = size_in_bytes(GetParam());
    for (std::size_t at = 0; at < raw.size(); at += size) {
      const auto element = raw.subspan(at, size);
      touched += std::ranges::count(element, std::byte{0xff}) != std::ssize(element) ? 1 : 0;
    }
    return touched;
  };
  EXPECT_EQ(count_touched(0), 0);
  EXPECT_EQ(count_touched(1), 160);
}

TEST(KvCache, SlotsAreThePlacesInThePages) {
  KvCache cache = cache_of_pages(4);
  const SequenceId a = cache.add_sequence();
  const SequenceId b = cache.add_sequence();
  cache.extend(a, 10);
  cache.extend(b, 10);
  cache.extend(a, kPage);
  const auto pages = pages_of(cache, a);
  ASSERT_EQ(pages.size(), 2u);
  EXPECT_EQ(cache.slot(a, 0), pages[0] * kPage);
  EXPECT_EQ(cache.slot(a, 63), pages[0] * kPage + 63);
  EXPECT_EQ(cache.slot(a, 64), pages[1] * kPage);
  EXPECT_EQ(cache.slot(b, 9), pages_of(cache, b)[0] * kPage + 9);
}

// An absurd size must be refused by arithmetic: an allocation of it might succeed, being lazy.
TEST(KvCacheMemory, IsRefusedBeforeAnythingIsAllocated) {
  for (const std::int64_t tokens :
       {std::int64_t{1} << 45, std::int64_t{1} << 57, std::int64_t{1} << 60,
        std::numeric_limits<std::int64_t>::max()}) {
    try {
      KvCache cache(small_config(), DType::kF32, tokens);
      FAIL() << "allocated " << tokens << " tokens";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      EXPECT_THAT(
          error.what(),
          MatchesRegex("a KV cache for " + std::to_string(tokens) +
                       " tokens takes [0-9.]+ GB \\(40 bytes a token\\), but [0-9.]+ GB are "
                       "free, enough for [0-9]+; use a smaller --context"));
    }
  }
}

TEST(KvCacheMemory, OfTheExpandedFormIsRefusedAsSuch) {
  try {
    KvCache cache(small_config(), DType::kF32, std::int64_t{1} << 50, KvCacheForm::kExpanded);
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_THAT(error.what(),
                MatchesRegex("an expanded KV cache for 1125899906842624 tokens takes [0-9.]+ GB "
                             "\\(128 bytes a token\\), but [0-9.]+ GB are free, enough for "
                             "[0-9]+; use a smaller --context, or --kv-cache latent"));
  }
}

TEST(KvCacheMemory, MappedWeightsAreNotFree) {
  const std::size_t share = available_memory_bytes() / 10 * 6;
  const auto tokens = static_cast<std::int64_t>(share / 40);
  EXPECT_NO_THROW(KvCache(small_config(), DType::kF32, tokens));
  EXPECT_THROW(KvCache(small_config(), DType::kF32, tokens, KvCacheForm::kLatent, share), Error);
}

}  // namespace
}  // namespace tessera
