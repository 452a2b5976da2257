// What operator tests share: matrices that stand in poisoned memory, weights of any element type,
// and comparison with an absolute bound.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <tessera/dtype.h>

#include "base/convert.h"
#include "ops/executor.h"
#include "ops/rows.h"
#include "ops/weight.h"

namespace tessera::ops::testing {

// A NaN of its own: reading it spoils a result, overwriting it shows.
inline constexpr std::uint32_t kPoisonBits = 0x7fc0beef;
inline const float kPoison = std::bit_cast<float>(kPoisonBits);

inline bool is_poison(float value) {
  return std::bit_cast<std::uint32_t>(value) == kPoisonBits;
}

// Uniform in [-1, 1).
inline float random_value(std::mt19937& random) {
  return static_cast<float>(random()) * 0x1p-31f - 1.0f;
}

// rows x columns floats with `padding` poisoned floats after every row and a poisoned row's worth
// before the first; the values are poisoned too until something writes them.
class PaddedRows {
 public:
  PaddedRows(std::int64_t rows, std::int64_t columns, std::int64_t padding = 5)
      : stride_(columns + padding),
        memory_(static_cast<std::size_t>((rows + 2) * stride_), kPoison),
        rows_(memory_.data() + stride_, rows, columns, stride_) {}
  PaddedRows(const PaddedRows&) = delete;
  PaddedRows& operator=(const PaddedRows&) = delete;

  const Rows& rows() const { return rows_; }
  // The rows as `heads` heads side by side.
  Heads heads(std::int64_t heads) const {
    return {rows_.data, rows_.rows, heads, stride_, rows_.columns / heads};
  }

  PaddedRows& fill(std::mt19937& random) {
    for (std::int64_t r = 0; r < rows_.rows; ++r) {
      for (float& value : rows_.row(r)) value = random_value(random);
    }
    return *this;
  }
  PaddedRows& fill(std::span<const float> values) {
    for (std::int64_t r = 0; r < rows_.rows; ++r) {
      for (float& value : rows_.row(r)) {
        value = values.front();
        values = values.subspan(1);
      }
    }
    return *this;
  }

  std::vector<float> values() const {
    std::vector<float> all;
    for (std::int64_t r = 0; r < rows_.rows; ++r) {
      all.insert(all.end(), rows_.row(r).begin(), rows_.row(r).end());
    }
    return all;
  }

  // Whether nothing but the values was written.
  bool guards_intact() const {
    for (std::int64_t i = 0; i < std::ssize(memory_); ++i) {
      const std::int64_t row = i / stride_ - 1;
      const bool is_value = row >= 0 && row < rows_.rows && i % stride_ < rows_.columns;
      if (!is_value && !is_poison(memory_[static_cast<std::size_t>(i)])) return false;
    }
    return true;
  }

 private:
  std::int64_t stride_;
  std::vector<float> memory_;
  Rows rows_;
};

// A matrix [n, k] of any element type, stored row by row or column by column, with NaN between the
// lines and around them.
class PaddedWeight {
 public:
  PaddedWeight(DType dtype, std::int64_t n, std::int64_t k, bool transposed,
               std::int64_t padding = 3)
      : size_(size_in_bytes(dtype)) {
    const std::int64_t lines = transposed ? k : n;
    const std::int64_t stride = (transposed ? n : k) + padding;
    memory_.assign(static_cast<std::size_t>((lines + 2) * stride) * size_, std::byte{0xff});
    view_ = {memory_.data() + static_cast<std::size_t>(stride) * size_,
             dtype,
             n,
             k,
             transposed ? 1 : stride,
             transposed ? stride : 1};
  }
  PaddedWeight(const PaddedWeight&) = delete;
  PaddedWeight& operator=(const PaddedWeight&) = delete;

  const WeightView& view() const { return view_; }

  void set(std::int64_t i, std::int64_t j, float value) {
    convert(&value, DType::kF32, const_cast<std::byte*>(view_.at(i, j)), view_.dtype, 1);
  }
  PaddedWeight& fill(std::mt19937& random) {
    for (std::int64_t i = 0; i < view_.n; ++i) {
      for (std::int64_t j = 0; j < view_.k; ++j) set(i, j, random_value(random));
    }
    return *this;
  }

 private:
  std::size_t size_;
  std::vector<std::byte> memory_;
  WeightView view_;
};

// A dense Weight with random values.
inline Weight random_weight(DType dtype, std::int64_t n, std::int64_t k, std::mt19937& random) {
  Weight weight(dtype, n, k);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < k; ++j) {
      const float value = random_value(random);
      convert(&value, DType::kF32, const_cast<std::byte*>(weight.view().at(i, j)), dtype, 1);
    }
  }
  return weight;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// Every value is finite and within `bound` of what is expected.
inline ::testing::AssertionResult near(std::span<const float> got, std::span<const float> expected,
                                       double bound) {
  if (got.size() != expected.size()) {
    return ::testing::AssertionFailure() << got.size() << " values, expected " << expected.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - expected[i]);
    if (!(error <= bound)) {
      return ::testing::AssertionFailure() << "value " << i << " is " << got[i] << ", expected "
                                           << expected[i] << " within " << bound;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace tessera::ops::testing
