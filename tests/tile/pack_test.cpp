#include "tile/packed/pack.h"

#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/half.h"

namespace tessera::tile::cpu {
namespace {

float value(std::int64_t i, std::int64_t j) {
  return static_cast<float>((i * 31 + j * 7) % 251 - 125);
}

TEST(Pack, UnpacksToWhatWasPacked) {
  ThreadPool pool(2);
  for (PanelLayout layout : {PanelLayout::kF32, PanelLayout::kBF16, PanelLayout::kF16}) {
    for (std::int64_t n : {1, 31, 32, 33, 100}) {
      for (std::int64_t k : {1, 2, 127, 128, 129, 300}) {
        for (const bool transposed : {false, true}) {
          std::vector<float> source(static_cast<std::size_t>(n * k));
          const std::int64_t n_stride = transposed ? 1 : k;
          const std::int64_t k_stride = transposed ? n : 1;
          for (std::int64_t i = 0; i < n; ++i) {
            for (std::int64_t j = 0; j < k; ++j) {
              source[static_cast<std::size_t>(i * n_stride + j * k_stride)] = value(i, j);
            }
          }
          const PackedWeight weight = pack({reinterpret_cast<const std::byte*>(source.data()),
                                            DType::kF32, n, k, n_stride, k_stride},
                                           layout, pool);
          std::vector<double> rows(static_cast<std::size_t>(n * k));
          unpack(weight.shape(), weight.data(), rows.data());
          for (std::int64_t i = 0; i < n; ++i) {
            for (std::int64_t j = 0; j < k; ++j) {
              ASSERT_EQ(rows[static_cast<std::size_t>(i * k + j)], value(i, j)) << i << " " << j;
            }
          }
        }
      }
    }
  }
}

TEST(Pack, LaysOutPairsOfInputsAndPadsWithZeros) {
  constexpr std::int64_t kN = 33;
  constexpr std::int64_t kK = 3;
  std::vector<bf16> source(kN * kK);
  for (std::int64_t i = 0; i < kN; ++i) {
    for (std::int64_t j = 0; j < kK; ++j)
      source[static_cast<std::size_t>(i * kK + j)] = to_bf16(value(i, j));
  }
  ThreadPool pool(1);
  const PackedWeight weight =
      pack({reinterpret_cast<const std::byte*>(source.data()), DType::kBF16, kN, kK, kK, 1},
           PanelLayout::kBF16, pool);
  ASSERT_EQ(weight.shape().bytes(), 2u * 2 * 32 * 2 * sizeof(bf16));
  const auto* packed = reinterpret_cast<const bf16*>(weight.data());
  for (std::int64_t i = 0; i < 64; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      const std::int64_t index = ((i / 32 * 2 + j / 2) * 32 + i % 32) * 2 + j % 2;
      const float expected = i < kN && j < kK ? value(i, j) : 0.0f;
      EXPECT_EQ(to_float(packed[index]), expected) << i << " " << j;
    }
  }
}

TEST(Pack, RoundsToNearestEven) {
  const std::vector<float> source{1.0f + 0x1p-8f, 1.0f + 0x3p-8f};
  ThreadPool pool(1);
  const PackedWeight weight =
      pack({reinterpret_cast<const std::byte*>(source.data()), DType::kF32, 1, 2, 2, 1},
           PanelLayout::kBF16, pool);
  std::vector<double> rows(2);
  unpack(weight.shape(), weight.data(), rows.data());
  EXPECT_EQ(rows, (std::vector<double>{1.0f, 1.0f + 0x1p-6f}));
}

TEST(Pack, QuantisesEachColumnToItsLargestMagnitude) {
  constexpr std::int64_t kN = 40;
  constexpr std::int64_t kK = 37;
  std::vector<float> source(kN * kK);
  for (std::int64_t i = 0; i < kN; ++i) {
    const float scale = i == 5 ? 0.0f : std::ldexp(1.0f, static_cast<int>(i % 7) - 3);
    for (std::int64_t j = 0; j < kK; ++j) {
      source[static_cast<std::size_t>(i * kK + j)] = value(i, j) * scale;
    }
  }
  ThreadPool pool(2);
  const PackedWeight weight =
      pack({reinterpret_cast<const std::byte*>(source.data()), DType::kF32, kN, kK, kK, 1},
           PanelLayout::kI8, pool);
  std::vector<double> rows(kN * kK);
  unpack(weight.shape(), weight.data(), rows.data());
  for (std::int64_t i = 0; i < kN; ++i) {
    const float* from = source.data() + i * kK;
    float largest = 0;
    for (std::int64_t j = 0; j < kK; ++j) largest = std::max(largest, std::abs(from[j]));
    for (std::int64_t j = 0; j < kK; ++j) {
      EXPECT_NEAR(rows[static_cast<std::size_t>(i * kK + j)], from[j], largest / 127 * 0.501f);
    }
  }
}

}  // namespace
}  // namespace tessera::tile::cpu
