#include <bit>
#include <cmath>

#include "base/half.h"
#include "tests/tile/kernel_harness.h"
#include "tile/cpu/loop_builder.h"

namespace tessera::tile::cpu {
namespace {

using testing::Guarded;
using testing::Kernel;
using testing::Random;

class Vector : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Targets, Vector, ::testing::ValuesIn(testing::runnable_targets()),
                         testing::target_name);

std::vector<std::size_t> tails(int lanes) {
  const auto w = static_cast<std::size_t>(lanes);
  return {1, w - 1, w, w + 1, 2 * w + 1};
}

// out[i] = f(in[i]) for i < n, as whole vectors and a masked tail.
Kernel elementwise(const std::string& cpu, Element from, Element to,
                   const std::function<llvm::Value*(VectorBuilder&, llvm::Value*)>& f) {
  return Kernel(cpu, "ppi", [&](VectorBuilder& b, llvm::Function& function) {
    llvm::IRBuilder<>& ir = b.ir();
    llvm::Value* n = function.getArg(2);
    const auto step = [&](llvm::Value* i, llvm::Value* mask) {
      llvm::Value* in = b.at(function.getArg(0), ir.CreateMul(i, ir.getInt64(element_bytes(from))));
      llvm::Value* out = b.at(function.getArg(1), ir.CreateMul(i, ir.getInt64(element_bytes(to))));
      b.store(to, f(b, b.load(from, in, mask)), out, mask);
    };
    llvm::Value* whole = ir.CreateSub(n, ir.CreateURem(n, ir.getInt64(b.lanes())));
    emit_loop(ir, ir.getInt64(0), whole, b.lanes(), [&](llvm::Value* i) { step(i, nullptr); });
    emit_loop(ir, whole, n, 64,
              [&](llvm::Value* i) { step(i, b.first_lanes(ir.CreateSub(n, i))); });
  });
}

llvm::Value* same(VectorBuilder&, llvm::Value* v) {
  return v;
}

TEST_P(Vector, CopiesAnyLengthOfAnyElementAndNothingElse) {
  for (Element element :
       {Element::kF32, Element::kBF16, Element::kF16, Element::kI32, Element::kI8, Element::kU8}) {
    const Kernel copy = elementwise(GetParam(), element, element, same);
    const auto size = static_cast<std::size_t>(element_bytes(element));
    for (std::size_t n : tails(copy.target().lanes())) {
      Guarded<std::uint8_t> in(n * size, size);
      Guarded<std::uint8_t> out(n * size, size);
      for (std::size_t i = 0; i < n * size; ++i)
        in[i] = static_cast<std::uint8_t>(17 * i + 3) & 0x3f;
      if (element == Element::kF16 || element == Element::kBF16) {
        for (std::size_t i = 1; i < n * size; i += 2) in[i] |= 0x20;  // no subnormal numbers
      }
      copy(in.data(), out.data(), static_cast<std::int64_t>(n));
      EXPECT_EQ(std::memcmp(in.data(), out.data(), n * size), 0) << n;
      EXPECT_TRUE(out.guards_intact());
    }
  }
}

TEST_P(Vector, WidensEveryHalf) {
  constexpr std::size_t kAll = 1 << 16;
  for (Element element : {Element::kBF16, Element::kF16}) {
    const Kernel widen = elementwise(GetParam(), element, Element::kF32, same);
    std::vector<std::uint16_t> in(kAll);
    std::vector<float> out(kAll);
    for (std::size_t i = 0; i < kAll; ++i) in[i] = static_cast<std::uint16_t>(i);
    widen(in.data(), out.data(), static_cast<std::int64_t>(kAll));
    for (std::size_t i = 0; i < kAll; ++i) {
      const float expected =
          element == Element::kBF16 ? to_float(bf16{in[i]}) : to_float(f16{in[i]});
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(out[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(expected))
            << i;
      }
    }
  }
}

std::vector<float> interesting_floats() {
  std::vector<float> values;
  Random random(7);
  for (int i = 0; i < 200000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.next())));
  }
  for (std::uint32_t high = 0; high < 0x10000; ++high) {  // ties, and both sides of them
    for (std::uint32_t low : {0x0000u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u}) {
      values.push_back(std::bit_cast<float>((high << 16) | low));
    }
  }
  return values;
}

TEST_P(Vector, RoundsToHalvesAsTheBaseLayerDoes) {
  const std::vector<float> in = interesting_floats();
  for (Element element : {Element::kBF16, Element::kF16}) {
    const Kernel narrow = elementwise(GetParam(), Element::kF32, element, same);
    std::vector<std::uint16_t> out(in.size());
    narrow(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::uint16_t expected =
          element == Element::kBF16 ? to_bf16(in[i]).bits : to_f16(in[i]).bits;
      if (std::isnan(in[i])) {
        const float got =
            element == Element::kBF16 ? to_float(bf16{out[i]}) : to_float(f16{out[i]});
        EXPECT_TRUE(std::isnan(got));
      } else if (element == Element::kBF16 && narrow.target().bf16_dot &&
                 std::abs(in[i]) < 0x1p-126f) {
        EXPECT_EQ(out[i] & 0x7fff, 0) << in[i];
      } else {
        ASSERT_EQ(out[i], expected) << in[i];
      }
    }
  }
}

TEST_P(Vector, RoundsToIntegersAndSaturates) {
  const Kernel to_i32 = elementwise(GetParam(), Element::kF32, Element::kI32, same);
  const Kernel to_i8 = elementwise(GetParam(), Element::kF32, Element::kI8, same);
  std::vector<float> in = interesting_floats();
  for (float value : {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 126.5f, 127.5f, -128.5f, 8388607.5f,
                      4194303.5f, 4194304.5f, 2147483648.0f, -2147483648.0f, 1e20f, -1e20f}) {
    in.push_back(value);
  }
  std::vector<std::int32_t> wide(in.size());
  std::vector<std::int8_t> narrow(in.size());
  to_i32(in.data(), wide.data(), static_cast<std::int64_t>(in.size()));
  to_i8(in.data(), narrow.data(), static_cast<std::int64_t>(in.size()));
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double rounded = std::isnan(in[i]) ? 0.0 : std::nearbyint(static_cast<double>(in[i]));
    const auto expected =
        static_cast<std::int32_t>(std::clamp(rounded, -2147483648.0, 2147483647.0));
    ASSERT_EQ(wide[i], expected) << in[i];
    ASSERT_EQ(narrow[i], std::clamp(expected, -128, 127)) << in[i];
  }
}

// Distance in units of the last place of the expected value; subnormal steps below 2^-126.
double ulps(float got, double expected) {
  if (std::isinf(got) && expected > 3.4028235e38) return 0;
  const int exponent = std::max(std::ilogb(expected == 0 ? 0x1p-149 : expected), -126);
  return std::abs(got - expected) / std::ldexp(1.0, exponent - 23);
}

TEST_P(Vector, ExpIsWithinTwoUlp) {
  const Kernel kernel = elementwise(GetParam(), Element::kF32, Element::kF32,
                                    [](VectorBuilder& b, llvm::Value* v) { return b.exp(v); });
  std::vector<float> in;
  for (float x = -105.0f; x < 90.0f; x += 0.000731f) in.push_back(x);
  for (int i = 0; i < 20000; ++i) in.push_back(static_cast<float>(i - 10000) * 1e-9f);
  std::vector<float> out(in.size());
  kernel(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
  double worst = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double distance = ulps(out[i], std::exp(static_cast<double>(in[i])));
    worst = std::max(worst, distance);
    ASSERT_LE(distance, 2) << in[i];
  }
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST_P(Vector, ExpOfTheExtremes) {
  const Kernel kernel = elementwise(GetParam(), Element::kF32, Element::kF32,
                                    [](VectorBuilder& b, llvm::Value* v) { return b.exp(v); });
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> in{infinity, -infinity, std::nanf(""), 88.73f,
                              1e30f,    -104.0f,   -1e30f,        0.0f};
  std::vector<float> out(in.size());
  kernel(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
  EXPECT_EQ(out[0], infinity);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], infinity);
  EXPECT_EQ(out[4], infinity);
  EXPECT_EQ(out[5], 0.0f);
  EXPECT_EQ(out[6], 0.0f);
  EXPECT_EQ(out[7], 1.0f);
}

TEST_P(Vector, SigmoidAndRootsKeepTheirAccuracy) {
  struct Case {
    std::function<llvm::Value*(VectorBuilder&, llvm::Value*)> emit;
    std::function<double(double)> expected;
    float low, high;
    double tolerance;
  };
  const std::vector<Case> cases{
      {[](VectorBuilder& b, llvm::Value* v) { return b.sigmoid(v); },
       [](double x) { return 1 / (1 + std::exp(-x)); }, -87.0f, 100.0f, 4},
      {[](VectorBuilder& b, llvm::Value* v) { return b.sqrt(v); },
       [](double x) { return std::sqrt(x); }, 0.0f, 1e4f, 0.5},
      {[](VectorBuilder& b, llvm::Value* v) { return b.rsqrt(v); },
       [](double x) { return 1 / std::sqrt(x); }, 1e-3f, 1e4f, 1.5},
  };
  for (const Case& c : cases) {
    const Kernel kernel = elementwise(GetParam(), Element::kF32, Element::kF32, c.emit);
    std::vector<float> in;
    for (int i = 0; i <= 100000; ++i)
      in.push_back(c.low + (c.high - c.low) * static_cast<float>(i) / 100000);
    std::vector<float> out(in.size());
    kernel(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
    for (std::size_t i = 0; i < in.size(); ++i) {
      ASSERT_LE(ulps(out[i], c.expected(in[i])), c.tolerance) << in[i];
    }
  }
}

TEST_P(Vector, SigmoidOfTheExtremes) {
  const Kernel kernel = elementwise(GetParam(), Element::kF32, Element::kF32,
                                    [](VectorBuilder& b, llvm::Value* v) { return b.sigmoid(v); });
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> in{infinity, -infinity, std::nanf(""), -100.0f};
  std::vector<float> out(in.size());
  kernel(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_NEAR(out[3], 0.0f, 1e-37f);
}

TEST_P(Vector, MaximumAndMinimumKeepNaN) {
  const float nan = std::nanf("");
  for (const bool is_max : {true, false}) {
    const Kernel kernel(GetParam(), "ppp", [&](VectorBuilder& b, llvm::Function& function) {
      llvm::Value* x = b.load(Element::kF32, function.getArg(0));
      llvm::Value* y = b.load(Element::kF32, function.getArg(1));
      b.store(Element::kF32, is_max ? b.maximum(x, y) : b.minimum(x, y), function.getArg(2));
    });
    const auto w = static_cast<std::size_t>(kernel.target().lanes());
    std::vector<float> x(w, 1.0f);
    std::vector<float> y(w, 2.0f);
    std::vector<float> out(w);
    x[1] = nan;
    y[2] = nan;
    kernel(x.data(), y.data(), out.data());
    EXPECT_EQ(out[0], is_max ? 2.0f : 1.0f);
    EXPECT_TRUE(std::isnan(out[1]));
    EXPECT_TRUE(std::isnan(out[2]));
  }
}

TEST_P(Vector, SumsAndMaximaAcrossLanes) {
  const Kernel kernel(GetParam(), "pp", [](VectorBuilder& b, llvm::Function& function) {
    llvm::Value* v = b.load(Element::kF32, function.getArg(0));
    b.store_scalar(Element::kF32, b.sum(v), function.getArg(1));
    b.store_scalar(Element::kF32, b.max(v), b.at(function.getArg(1), 4));
  });
  const auto w = static_cast<std::size_t>(kernel.target().lanes());
  std::vector<float> in(w);
  float expected = 0;
  for (std::size_t i = 0; i < w; ++i) in[i] = static_cast<float>((i * 7) % w), expected += in[i];
  Guarded<float> out(2);
  kernel(in.data(), out.data());
  EXPECT_EQ(out[0], expected);
  EXPECT_EQ(out[1], static_cast<float>(w - 1));
  EXPECT_TRUE(out.guards_intact());
}

TEST_P(Vector, SplitsAndJoinsPairs) {
  for (Element element : {Element::kF32, Element::kBF16, Element::kF16}) {
    // Swaps the elements of each pair.
    const auto swap = [&](bool counted) {
      return Kernel(GetParam(), "ppi", [&](VectorBuilder& b, llvm::Function& function) {
        llvm::Value* count = counted ? function.getArg(2) : nullptr;
        const auto pair = b.load_interleaved(element, function.getArg(0), count);
        b.store_interleaved(element, {pair[1], pair[0]}, function.getArg(1), count);
      });
    };
    const Kernel whole = swap(false);
    const Kernel counted = swap(true);
    const auto w = static_cast<std::size_t>(whole.target().lanes());
    const auto size = static_cast<std::size_t>(element_bytes(element));
    for (std::size_t n = 0; n <= w + 1; ++n) {
      const std::size_t pairs = std::min(n, w);
      Guarded<std::uint8_t> in(2 * pairs * size, size);
      Guarded<std::uint8_t> out(2 * pairs * size, size);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(0x21 + i % 64);
      (n > w ? whole : counted)(in.data(), out.data(), static_cast<std::int64_t>(n));
      for (std::size_t i = 0; i < 2 * pairs; ++i) {
        EXPECT_EQ(std::memcmp(out.data() + i * size, in.data() + (i ^ 1) * size, size), 0);
      }
      EXPECT_TRUE(out.guards_intact());
    }
  }
}

TEST_P(Vector, ReadsAndWritesStrided) {
  for (Element element : {Element::kF32, Element::kBF16, Element::kI8}) {
    const Kernel counted(GetParam(), "ppii", [&](VectorBuilder& b, llvm::Function& function) {
      llvm::Value* v =
          b.load_strided(element, function.getArg(0), function.getArg(2), function.getArg(3));
      b.store_strided(element, v, function.getArg(1), function.getArg(2), function.getArg(3));
    });
    const Kernel whole(GetParam(), "ppii", [&](VectorBuilder& b, llvm::Function& function) {
      llvm::Value* v = b.load_strided(element, function.getArg(0), function.getArg(2));
      b.store_strided(element, v, function.getArg(1), function.getArg(2));
    });
    const auto w = static_cast<std::size_t>(whole.target().lanes());
    const auto size = static_cast<std::size_t>(element_bytes(element));
    const std::size_t stride = 3 * size;
    for (std::size_t n = 0; n <= w + 1; ++n) {
      const std::size_t lanes = std::min(n, w);
      Guarded<std::uint8_t> in(w * stride);
      Guarded<std::uint8_t> out(w * stride);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(0x21 + i % 64);
      (n > w ? whole : counted)(in.data(), out.data(), static_cast<std::int64_t>(stride),
                                static_cast<std::int64_t>(n));
      for (std::size_t i = 0; i < out.size(); ++i) {
        const bool written = i / stride < lanes && i % stride < size;
        ASSERT_EQ(out[i], written ? in[i] : 0xff) << i;
      }
      EXPECT_TRUE(out.guards_intact());
    }
  }
}

}  // namespace
}  // namespace tessera::tile::cpu
