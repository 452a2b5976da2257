#include "tile/packed/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/convert.h"
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

// Weights of every type, by rows and by columns, with tails: the panels are those of the same
// numbers in fp32 by rows.
TEST(Pack, TakesEveryTypeAndOrientation) {
  ThreadPool pool(2);
  for (PanelLayout layout : kPanelLayouts) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (std::int64_t n : {1, 33, 64}) {
        for (std::int64_t k : {1, 7, 8, 15, 17, 32, 127, 129, 256, 391}) {
          const auto count = static_cast<std::size_t>(n * k);
          std::vector<float> by_rows(count);
          std::vector<float> by_columns(count);
          for (std::int64_t i = 0; i < n; ++i) {
            for (std::int64_t j = 0; j < k; ++j) {
              by_rows[static_cast<std::size_t>(i * k + j)] = value(i, j);
              by_columns[static_cast<std::size_t>(j * n + i)] = value(i, j);
            }
          }
          // One element in front: rows of two bytes are not aligned to four.
          const std::size_t size = size_in_bytes(dtype);
          std::vector<std::byte> rows((count + 1) * size);
          std::vector<std::byte> columns((count + 1) * size);
          convert(by_rows.data(), DType::kF32, rows.data() + size, dtype, count);
          convert(by_columns.data(), DType::kF32, columns.data() + size, dtype, count);
          const PackedWeight expected =
              pack({reinterpret_cast<const std::byte*>(by_rows.data()), DType::kF32, n, k, k, 1},
                   layout, pool);
          const PackedWeight a = pack({rows.data() + size, dtype, n, k, k, 1}, layout, pool);
          const PackedWeight b = pack({columns.data() + size, dtype, n, k, 1, n}, layout, pool);
          const std::size_t bytes = expected.shape().bytes();
          ASSERT_EQ(std::memcmp(a.data(), expected.data(), bytes), 0)
              << to_string(layout) << " " << to_string(dtype) << " " << n << " " << k;
          ASSERT_EQ(std::memcmp(b.data(), expected.data(), bytes), 0)
              << to_string(layout) << " " << to_string(dtype) << " " << n << " " << k
              << " by columns";
        }
      }
    }
  }
}

TEST(Pack, WritesNothingBesideThePanel) {
  for (PanelLayout layout : kPanelLayouts) {
    for (std::int64_t k : {1, 31, 129}) {
      std::vector<float> source(static_cast<std::size_t>(5 * k), 1.5f);
      const std::size_t bytes = PackedShape{layout, 5, k}.panel_bytes();
      Buffer memory(bytes + 128);
      std::memset(memory.data(), 0xa5, memory.size());
      pack_panel({reinterpret_cast<const std::byte*>(source.data()), DType::kF32, 5, k, k, 1},
                 layout, 0, memory.data() + 64);
      for (std::size_t i = 0; i < 64; ++i) {
        ASSERT_EQ(memory.data()[i], std::byte{0xa5}) << to_string(layout) << " " << k;
        ASSERT_EQ(memory.data()[64 + bytes + i], std::byte{0xa5}) << to_string(layout) << " " << k;
      }
    }
  }
}

TEST(Pack, SaysWhatALayoutCannotHold) {
  constexpr std::int64_t kN = 40;
  constexpr std::int64_t kK = 200;
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  for (PanelLayout layout : kPanelLayouts) {
    Buffer memory(PackedShape{layout, kN, kK}.panel_bytes());
    for (float bad : {1.0f, 65504.0f, -65520.0f, nan, inf, -inf}) {
      for (const bool transposed : {false, true}) {
        for (std::int64_t place : {0L, kN * kK - 1}) {
          std::vector<float> source(static_cast<std::size_t>(kN * kK), 0.5f);
          source[static_cast<std::size_t>(place)] = bad;
          const bool fits =
              pack_panel({reinterpret_cast<const std::byte*>(source.data()), DType::kF32, kN, kK,
                          transposed ? 1 : kK, transposed ? kN : 1},
                         layout, place == 0 ? 0 : 1, memory.data());
          bool expected = true;
          if (is_quantised(layout)) expected = std::isfinite(bad);
          if (layout == PanelLayout::kF16) expected = !(std::abs(bad) > 65504.0f);
          EXPECT_EQ(fits, expected) << to_string(layout) << " " << bad << " " << place;
        }
      }
    }
  }
}

// Random weights with a column of zeros, packed and unpacked again.
struct Quantised {
  Quantised(PanelLayout layout, std::int64_t n, std::int64_t k, DType dtype, bool transposed)
      : n(n), k(k), source(static_cast<std::size_t>(n * k)) {
    std::mt19937 random(static_cast<unsigned>(n * 1000 + k));
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < k; ++j)
        at(i, j) = i == 5 ? 0 : to_float(to_bf16(normal(random)));
    }
    std::vector<float> ordered(source);
    if (transposed) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < k; ++j)
          ordered[static_cast<std::size_t>(j * n + i)] = at(i, j);
      }
    }
    std::vector<std::byte> stored(ordered.size() * size_in_bytes(dtype));
    convert(ordered.data(), DType::kF32, stored.data(), dtype, ordered.size());
    ThreadPool pool(2);
    packed =
        pack({stored.data(), dtype, n, k, transposed ? 1 : k, transposed ? n : 1}, layout, pool);
    rows.resize(source.size());
    unpack(packed.shape(), packed.data(), rows.data());
  }
  float& at(std::int64_t i, std::int64_t j) { return source[static_cast<std::size_t>(i * k + j)]; }

  std::int64_t n, k;
  std::vector<float> source;
  PackedWeight packed;
  std::vector<double> rows;
};

// Half a step of the coarsest scale that is tried, for what it does not clip, and the clipped rest:
// the largest magnitude may lose almost a whole step at the end of the range.
double largest_error(PanelLayout layout) {
  if (layout == PanelLayout::kI4G32) return 1.8 / 8;
  return layout == PanelLayout::kI6G32 ? 1.6 / 32 : 1.6 / 128;
}

TEST(PackQuantised, KeepsEveryValueWithinAStep) {
  for (PanelLayout layout :
       {PanelLayout::kI8, PanelLayout::kI8G32, PanelLayout::kI6G32, PanelLayout::kI4G32}) {
    for (std::int64_t n : {1, 31, 33, 64}) {
      for (std::int64_t k : {1, 3, 4, 31, 32, 33, 127, 128, 129, 300}) {
        for (const bool transposed : {false, true}) {
          for (DType dtype : {DType::kF32, DType::kBF16}) {
            Quantised w(layout, n, k, dtype, transposed);
            const std::int64_t group = has_groups(layout) ? 32 : k;
            for (std::int64_t i = 0; i < n; ++i) {
              for (std::int64_t first = 0; first < k; first += group) {
                const std::int64_t end = std::min(k, first + group);
                float largest = 0;
                for (std::int64_t j = first; j < end; ++j) {
                  largest = std::max(largest, std::abs(w.at(i, j)));
                }
                for (std::int64_t j = first; j < end; ++j) {
                  ASSERT_NEAR(w.rows[static_cast<std::size_t>(i * k + j)], w.at(i, j),
                              largest * largest_error(layout))
                      << to_string(layout) << " " << i << " " << j << " of " << n << "x" << k;
                }
              }
            }
          }
        }
      }
    }
  }
}

// Against integers that reach from -7 to 7 with the largest magnitude as 7.
TEST(PackQuantised, FindsScalesBetterThanTheLargestMagnitudeGives) {
  Quantised w(PanelLayout::kI4G32, 64, 1024, DType::kBF16, false);
  double error = 0;
  double plain_error = 0;
  for (std::size_t group = 0; group < w.source.size(); group += 32) {
    float largest = 0;
    for (std::size_t i = group; i < group + 32; ++i) {
      largest = std::max(largest, std::abs(w.source[i]));
    }
    for (std::size_t i = group; i < group + 32; ++i) {
      const double plain =
          largest == 0 ? 0 : std::nearbyint(w.source[i] * 7 / largest) * largest / 7;
      error += std::pow(w.rows[i] - w.source[i], 2);
      plain_error += std::pow(plain - w.source[i], 2);
    }
  }
  EXPECT_LT(error, 0.75 * plain_error);  // 0.70 for normally distributed weights
}

TEST(PackQuantised, BytesPerWeight) {
  const auto bytes = [](PanelLayout layout) {
    return static_cast<double>(PackedShape{layout, 64, 2048}.bytes()) / (64 * 2048);
  };
  EXPECT_EQ(bytes(PanelLayout::kI8), 1.0 + 4.0 / 2048);
  EXPECT_EQ(bytes(PanelLayout::kI8G32), 1.0625);
  EXPECT_EQ(bytes(PanelLayout::kI6G32), 0.8125);
  EXPECT_EQ(bytes(PanelLayout::kI4G32), 0.5625);
}

// Integers that the layout holds exactly come back as they are.
TEST(PackQuantised, KnownNibbles) {
  std::vector<float> source(32);
  for (int j = 0; j < 32; ++j) source[static_cast<std::size_t>(j)] = static_cast<float>(j % 16 - 8);
  ThreadPool pool(1);
  const PackedWeight weight =
      pack({reinterpret_cast<const std::byte*>(source.data()), DType::kF32, 1, 32, 32, 1},
           PanelLayout::kI4G32, pool);
  ASSERT_EQ(weight.shape().bytes(), 64u + 512u);
  EXPECT_EQ(to_float(reinterpret_cast<const f16*>(weight.data())[0]), 1.0f);
  // Inputs 0 ... 3 are -8 ... -5, stored as 0 ... 3 in the low halves; inputs 4 ... 7 in the high.
  EXPECT_EQ(weight.data()[64], std::byte{0x40});
  EXPECT_EQ(weight.data()[65], std::byte{0x51});
  EXPECT_EQ(weight.data()[68], std::byte{0x88});  // the next column is padding: 0, stored as 8
  std::vector<double> rows(32);
  unpack(weight.shape(), weight.data(), rows.data());
  for (std::size_t j = 0; j < 32; ++j) EXPECT_EQ(rows[j], source[j]);
}

TEST(PackQuantised, KnownSixBits) {
  // Input j is j - 16, and input 31 the end of the range, -32: stored as j + 16 and as 0.
  std::vector<float> source(32);
  for (int j = 0; j < 31; ++j) source[static_cast<std::size_t>(j)] = static_cast<float>(j - 16);
  source[31] = -32;
  ThreadPool pool(1);
  const PackedWeight weight =
      pack({reinterpret_cast<const std::byte*>(source.data()), DType::kF32, 1, 32, 32, 1},
           PanelLayout::kI6G32, pool);
  ASSERT_EQ(weight.shape().bytes(), 64u + 512u + 256u);
  EXPECT_EQ(to_float(reinterpret_cast<const f16*>(weight.data())[0]), 1.0f);
  EXPECT_EQ(weight.data()[64], std::byte{0x55});            // inputs 0, 4, 8 and 12: all 1
  EXPECT_EQ(weight.data()[64 + 128], std::byte{0x40});      // inputs 0 and 4, 0x10 and 0x14
  EXPECT_EQ(weight.data()[64 + 384], std::byte{0xaa});      // inputs 16, 20, 24, 28: all 2
  EXPECT_EQ(weight.data()[64 + 384 + 3], std::byte{0x2a});  // inputs 19, 23, 27: 2; 31: 0
  std::vector<double> rows(32);
  unpack(weight.shape(), weight.data(), rows.data());
  for (std::size_t j = 0; j < 32; ++j) EXPECT_EQ(rows[j], source[j]);
}

}  // namespace
}  // namespace tessera::tile::cpu
