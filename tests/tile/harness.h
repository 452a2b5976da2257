// Running small kernels against plain loops: tensors between guard bytes, outputs poisoned with
// NaN, one, two and three threads that must agree to the bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tessera/tile.h>

#include "base/half.h"
#include "base/thread_pool.h"
#include "tile/packed/pack.h"

namespace tessera::tile::test {

using Shape = std::vector<std::int64_t>;

inline std::int64_t count(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t extent : shape) n *= extent;
  return n;
}

// A tensor in memory of its own, with guard bytes on both sides.
class Data {
 public:
  Data(Element element, Shape shape) : element_(element), shape_(std::move(shape)) {
    bytes_.assign(2 * kGuard + size(), kGuardByte);
    std::memset(data(), 0xff, size());  // NaN in every floating-point type
  }
  static Data random(Element element, Shape shape, unsigned seed, double low = -2,
                     double high = 2) {
    Data data(element, std::move(shape));
    std::mt19937 engine(seed);
    std::uniform_real_distribution<double> uniform(low, high);
    for (std::int64_t i = 0; i < count(data.shape_); ++i) data.set(i, uniform(engine));
    return data;
  }

  Element element() const { return element_; }
  const Shape& shape() const { return shape_; }
  std::byte* data() { return bytes_.data() + kGuard; }
  const std::byte* data() const { return bytes_.data() + kGuard; }
  Argument argument() {
    return tile::argument(data(), element_, std::span<const std::int64_t>(shape_));
  }

  double operator[](std::int64_t i) const {
    const std::byte* at = data() + i * static_cast<std::int64_t>(size_in_bytes(element_));
    switch (element_) {
      case Element::kF32:
        return read<float>(at);
      case Element::kBF16:
        return to_float(read<bf16>(at));
      case Element::kF16:
        return to_float(read<f16>(at));
      case Element::kI32:
        return read<std::int32_t>(at);
      default:
        return read<std::int8_t>(at);
    }
  }
  void set(std::int64_t i, double value) {
    std::byte* at = data() + i * static_cast<std::int64_t>(size_in_bytes(element_));
    const auto f = static_cast<float>(value);
    switch (element_) {
      case Element::kF32:
        return write(at, f);
      case Element::kBF16:
        return write(at, to_bf16(f));
      case Element::kF16:
        return write(at, to_f16(f));
      case Element::kI32:
        return write(at, static_cast<std::int32_t>(value));
      default:
        return write(at, static_cast<std::int8_t>(value));
    }
  }
  bool guards_intact() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (bytes_[i] != kGuardByte || bytes_[bytes_.size() - 1 - i] != kGuardByte) return false;
    }
    return true;
  }
  bool same_bits(const Data& other) const { return bytes_ == other.bytes_; }
  std::size_t size() const {
    return static_cast<std::size_t>(count(shape_)) * size_in_bytes(element_);
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::byte kGuardByte{0xa5};

  template <typename T>
  static T read(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
  }
  template <typename T>
  static void write(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof(T));
  }

  Element element_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

// A weight [n, k] and its packed form.
struct Packed {
  Packed(Data rows, ThreadPool& pool) : values(std::move(rows)) {
    cpu::PackSource source;
    source.data = values.data();
    source.dtype = values.element() == Element::kF32    ? DType::kF32
                   : values.element() == Element::kBF16 ? DType::kBF16
                                                        : DType::kF16;
    source.n = values.shape()[0];
    source.k = values.shape()[1];
    source.n_stride = source.k;
    packed = cpu::pack(source, cpu::panel_layout(source.dtype), pool);
  }
  Argument argument() const {
    return packed_argument(packed.data(), values.element(), values.shape()[0], values.shape()[1]);
  }
  Data values;
  cpu::PackedWeight packed;
};

struct Pools {
  ThreadPool one{1};
  ThreadPool two{2};
  ThreadPool three{3};
};
inline Pools& pools() {
  static Pools pools;
  return pools;
}

// Runs on one, two and three threads; outputs are poisoned before each run and must agree.
inline void run(const Kernel& kernel, const std::vector<Argument>& arguments,
                const std::vector<Data*>& outputs) {
  std::vector<Data> first;
  for (ThreadPool* pool : {&pools().one, &pools().two, &pools().three}) {
    for (Data* output : outputs) std::memset(output->data(), 0xff, output->size());
    kernel.run(*pool, arguments);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(outputs[i]->guards_intact()) << kernel.name() << ": output " << i << " overran";
      if (pool == &pools().one) {
        first.push_back(*outputs[i]);
      } else {
        EXPECT_TRUE(first[i].same_bits(*outputs[i]))
            << kernel.name() << ": output " << i << " differs on " << pool->size() << " threads";
      }
    }
  }
}

// Spacing of an element type's numbers, relative.
inline double rounding(Element element) {
  switch (element) {
    case Element::kF32:
      return 1.2e-7;
    case Element::kBF16:
      return 7.9e-3;
    case Element::kF16:
      return 9.8e-4;
    default:
      return 0;
  }
}

// Every element within tolerance * (scale + |expected|) and a rounding of the output's type.
inline void expect_close(const Data& actual, const std::function<double(std::int64_t)>& expected,
                         double tolerance = 2e-6, double scale = 1) {
  for (std::int64_t i = 0; i < count(actual.shape()); ++i) {
    const double want = expected(i);
    const double bound =
        tolerance * (scale + std::abs(want)) + rounding(actual.element()) * std::abs(want);
    if (std::abs(actual[i] - want) <= bound) continue;
    if (std::isinf(want) && actual[i] == want) continue;
    if (std::isnan(want) && std::isnan(actual[i])) continue;
    ADD_FAILURE() << "element " << i << " is " << actual[i] << ", expected " << want;
    return;
  }
}

}  // namespace tessera::tile::test
