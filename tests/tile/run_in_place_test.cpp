// Tensors that are updated in place: every element is read before it is overwritten, whatever the
// order of points, the number of threads and the target's vectors.
#include <gmock/gmock.h>

#include "tests/tile/harness.h"

namespace tessera::tile::test {
namespace {

const Dim t = Dim::dynamic("t");
const Dim n = Dim::fixed("n"), half = Dim::fixed("half"), heads = Dim::fixed("heads");

using Expected = std::function<double(const Data& before, std::int64_t i)>;

// Runs on one, two and three threads from the same numbers; the last arguments are read only.
void check(const Kernel& kernel, const Data& before, std::vector<Argument> others,
           const Expected& expected, double tolerance = 2e-6) {
  std::vector<Data> results;
  for (ThreadPool* pool : {&pools().one, &pools().two, &pools().three}) {
    Data x = before;
    std::vector<Argument> arguments{x.argument()};
    arguments.insert(arguments.end(), others.begin(), others.end());
    kernel.run(*pool, arguments);
    EXPECT_TRUE(x.guards_intact()) << kernel.name() << " overran";
    results.push_back(std::move(x));
  }
  expect_close(results[0], [&](std::int64_t i) { return expected(before, i); }, tolerance);
  EXPECT_TRUE(results[0].same_bits(results[1])) << kernel.name() << " on 2 threads";
  EXPECT_TRUE(results[0].same_bits(results[2])) << kernel.name() << " on 3 threads";
}

constexpr std::int64_t kRows[] = {1, 2, 3, 7, 8, 9, 16, 17, 33, 70};
constexpr std::int64_t kWidths[] = {1, 2, 3, 7, 15, 16, 17, 33, 64};
constexpr Element kFloats[] = {Element::kF32, Element::kBF16, Element::kF16};

// Every width in fp32; types of other sizes move in memory as it does.
std::vector<std::int64_t> widths(Element element) {
  if (element != Element::kF32) return {1, 17};
  return {std::begin(kWidths), std::end(kWidths)};
}

TEST(RunInPlace, ARowIsSummedBeforeItIsOverwritten) {
  for (const std::vector<int>& factors : {std::vector<int>{1}, std::vector<int>{8, 4, 2}}) {
    const Kernel kernel = jit("scale_rows", {inout("x", {t, n})}, [factors](Tensor x) {
      loop_unroll(x.dim(0), factors, [&](Index row, int rows) {
        const Tile a = view(x, {rows, x.size(1)}, {row, 0});
        assemble(a / sum(a, 1), x, {row, 0});
      });
    });
    for (Element element : kFloats) {
      for (std::int64_t T : kRows) {
        for (std::int64_t N : widths(element)) {
          const Data x = Data::random(element, {T, N}, static_cast<unsigned>(T * 100 + N), 1, 2);
          check(kernel, x, {}, [&](const Data& before, std::int64_t i) {
            double sum = 0;
            for (std::int64_t j = 0; j < N; ++j) sum += before[i / N * N + j];
            return before[i] / sum;
          });
        }
      }
    }
  }
}

// Both halves of a row from both, stored by one assemble.
Kernel rotation(bool interleaved) {
  return jit(
      interleaved ? "pairs" : "halves",
      {inout("x", {t, heads, Dim(2) * half}), in("c", {t, half}), in("s", {t, half})},
      [interleaved](Tensor x, Tensor cos, Tensor sin) {
        const std::int64_t H = x.size(1), P = cos.size(1);
        const Access every{.valid = {}, .step = {1, 1, interleaved ? 2 : 1}};
        loop(x.dim(0), [&](Index row) {
          const Tile c = view(cos, {1, P}, {row, 0}), s = view(sin, {1, P}, {row, 0});
          const Tile a = view(x, {1, H, P}, {row, 0, 0}, every);
          const Tile b = view(x, {1, H, P}, {row, 0, interleaved ? 1 : P}, every);
          const Tile first = a * c - b * s, second = a * s + b * c;
          if (!interleaved) return assemble(concat({first, second}, 2), x, {row, 0, 0});
          assemble(reshape(concat({reshape(first, {1, H, P, 1}), reshape(second, {1, H, P, 1})}, 3),
                           {1, H, 2 * P}),
                   x, {row, 0, 0});
        });
      });
}

double rotated(const Data& x, const Data& c, const Data& s, std::int64_t i, std::int64_t H,
               std::int64_t P, bool interleaved) {
  const std::int64_t row = i / (2 * P * H), at = i % (2 * P), begin = i - at;
  const std::int64_t pair = interleaved ? at / 2 : at % P;
  const bool is_second = interleaved ? at % 2 == 1 : at >= P;
  const double a = x[begin + (interleaved ? 2 * pair : pair)];
  const double b = x[begin + (interleaved ? 2 * pair + 1 : P + pair)];
  const double cos = c[row * P + pair], sin = s[row * P + pair];
  return is_second ? a * sin + b * cos : a * cos - b * sin;
}

TEST(RunInPlace, RotationInBothLayouts) {
  for (bool interleaved : {true, false}) {
    const Kernel kernel = rotation(interleaved);
    for (Element element : kFloats) {
      for (std::int64_t P : widths(element)) {
        for (std::int64_t H : {1, 3}) {
          for (std::int64_t T : {1, 3, 8, 17}) {
            const Data x = Data::random(element, {T, H, 2 * P}, static_cast<unsigned>(P * 10 + T));
            Data c = Data::random(Element::kF32, {T, P}, 1),
                 s = Data::random(Element::kF32, {T, P}, 2);
            // Relative to the two products, not to what is left of them.
            check(
                kernel, x, {c.argument(), s.argument()},
                [&](const Data& before, std::int64_t i) {
                  return rotated(before, c, s, i, H, P, interleaved);
                },
                8 * std::max(1e-6, rounding(element)));
          }
        }
      }
    }
  }
}

TEST(RunInPlace, ARotationIsOneNestWithoutCopies) {
  for (bool interleaved : {true, false}) {
    Data x(Element::kF32, {20, 3, 32}), c(Element::kF32, {20, 16});
    const std::vector<Argument> arguments{x.argument(), c.argument(), c.argument()};
    const std::string text = rotation(interleaved).stage("scratch", arguments);
    EXPECT_EQ(text.find("nest"), text.rfind("nest")) << text;
    EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("temp"))) << text;
  }
}

TEST(RunInPlace, WhatIsUsedAfterAStoreIsKept) {
  // b and a are read by the second store, after the first one has overwritten a.
  for (bool interleaved : {true, false}) {
    const Kernel kernel =
        jit("two_stores", {inout("x", {t, Dim(2) * half}), out("kept", {t, half}, Element::kF32)},
            [interleaved](Tensor x, Tensor kept) {
              const std::int64_t P = kept.size(1);
              const Access every{.valid = {}, .step = {1, interleaved ? 2 : 1}};
              loop_unroll(x.dim(0), {4}, [&](Index row, int rows) {
                const Index second = interleaved ? 1 : P;
                const Tile a = view(x, {rows, P}, {row, 0}, every);
                const Tile b = view(x, {rows, P}, {row, second}, every);
                assemble(a - b, x, {row, 0}, every);
                assemble(b + a * 3, x, {row, second}, every);
                assemble(a * b, kept, {row, 0});
              });
            });
    for (std::int64_t P : kWidths) {
      for (std::int64_t T : {1, 4, 6, 17}) {
        const Data x = Data::random(Element::kF32, {T, 2 * P}, static_cast<unsigned>(P * 10 + T));
        Data kept(Element::kF32, {T, P});
        const auto pair = [&](const Data& d, std::int64_t i, bool second) {
          const std::int64_t row = i / (2 * P), at = i % (2 * P);
          const std::int64_t p = interleaved ? at / 2 : at % P;
          return d[row * 2 * P + (interleaved ? 2 * p + second : p + (second ? P : 0))];
        };
        check(kernel, x, {kept.argument()}, [&](const Data& before, std::int64_t i) {
          const double a = pair(before, i, false), b = pair(before, i, true);
          const bool is_second = interleaved ? i % 2 == 1 : i % (2 * P) >= P;
          return is_second ? b + a * 3 : a - b;
        });
        expect_close(kept, [&](std::int64_t i) {
          const std::int64_t at = i / P * 2 * P + (interleaved ? 2 * (i % P) : i % P);
          return pair(x, at, false) * pair(x, at, true);
        });
      }
    }
  }
}

TEST(RunInPlace, ElementsThatTradePlaces) {
  constexpr std::int64_t N = 20;
  const Kernel transposed = jit("transpose", {inout("x", {t, N, N})}, [](Tensor x) {
    loop(x.dim(0), [&](Index i) {
      assemble(transpose(view(x, {1, N, N}, {i, 0, 0}), {0, 2, 1}), x, {i, 0, 0});
    });
  });
  const Kernel swapped = jit("swap_halves", {inout("x", {t, N, N})}, [](Tensor x) {
    loop(x.dim(0), [&](Index i) {
      const Tile a = view(x, {1, N, N / 2}, {i, 0, 0}), b = view(x, {1, N, N / 2}, {i, 0, N / 2});
      assemble(concat({b, a}, 2), x, {i, 0, 0});
    });
  });
  const Kernel first = jit("minus_first", {inout("x", {t, N, N})}, [](Tensor x) {
    loop(x.dim(0), [&](Index i) {
      const Tile a = view(x, {1, N, N}, {i, 0, 0});
      assemble(a - slice(a, {1, 1, 1}, {0, 3, 4}), x, {i, 0, 0});
    });
  });
  for (std::int64_t T : {1, 3, 17}) {
    const Data x = Data::random(Element::kF32, {T, N, N}, 5);
    const auto at = [&](const Data& d, std::int64_t i, std::int64_t r, std::int64_t c) {
      return d[i / (N * N) * N * N + r * N + c];
    };
    check(transposed, x, {},
          [&](const Data& d, std::int64_t i) { return at(d, i, i % N, i / N % N); });
    check(swapped, x, {},
          [&](const Data& d, std::int64_t i) { return at(d, i, i / N % N, (i + N / 2) % N); });
    check(first, x, {}, [&](const Data& d, std::int64_t i) { return d[i] - at(d, i, 3, 4); });
  }
}

TEST(RunInPlace, PartsOfARowOneAfterTheOther) {
  const Kernel kernel = jit("parts", {inout("x", {t, 48})}, [](Tensor x) {
    loop(x.dim(0), [&](Index row) {
      for (int part = 0; part < 3; ++part) {
        const Tile a = view(x, {1, 16}, {row, 16 * part});
        assemble(a - max(a, 1), x, {row, 16 * part});
      }
    });
  });
  for (std::int64_t T : kRows) {
    const Data x = Data::random(Element::kF32, {T, 48}, 3);
    check(kernel, x, {}, [](const Data& before, std::int64_t i) {
      double largest = -1e30;
      for (std::int64_t j = i / 16 * 16; j < i / 16 * 16 + 16; ++j)
        largest = std::max(largest, before[j]);
      return before[i] - largest;
    });
  }
}

TEST(RunInPlace, ValidRowsEndExactly) {
  const Kernel kernel = jit("valid", {inout("x", {t, n})}, [](Tensor x) {
    const Index rows = x.dim(0);
    loop((rows + 7) / 8, [&](Index i) {
      const Tile a = view(x, {8, x.size(1)}, {i * 8, 0},
                          {.valid = {min(8, rows - i * 8), x.size(1)}, .step = {}});
      assemble(a / sum(a, 1), x, {i * 8, 0});
    });
  });
  for (std::int64_t T : kRows) {
    const Data x = Data::random(Element::kF32, {T, 30}, 3, 1, 2);
    check(kernel, x, {}, [](const Data& before, std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = 0; j < 30; ++j) sum += before[i / 30 * 30 + j];
      return before[i] / sum;
    });
  }
}

// The residual of a layer, and a product whose operand is what it overwrites.
TEST(RunInPlace, ProductsOverwriteTheirOperandAndAddToIt) {
  const auto product = [](bool residual) {
    return [residual](Tensor x, Tensor a, Tensor w) {
      const std::int64_t N = x.size(1);
      loop_unroll(x.dim(0), {4, 2}, [&](Index row, int rows) {
        const Tile old = view(x, {rows, N}, {row, 0});
        const Tile left = residual ? view(a, {rows, N}, {row, 0}) : old;
        assemble(residual ? old + matmul(left, w) : matmul(left, w) + view(a, {rows, N}, {row, 0}),
                 x, {row, 0});
      });
    };
  };
  const std::vector<Parameter> signature{inout("x", {t, n}), in("a", {t, n}), weight("w", {n, n})};
  const Kernel kernels[] = {jit("own_operand", signature, product(false)),
                            jit("residual", signature, product(true))};
  for (std::int64_t N : {33, 96}) {
    for (Element element : kFloats) {
      Packed w(Data::random(element, {N, N}, 2), pools().one);
      for (std::int64_t T : {1, 2, 7, 17}) {
        const Data x = Data::random(element, {T, N}, 3);
        Data a = Data::random(element, {T, N}, 4);
        for (bool residual : {false, true}) {
          check(
              kernels[residual], x, {a.argument(), w.argument()},
              [&](const Data& before, std::int64_t i) {
                double sum = residual ? before[i] : a[i];
                for (std::int64_t k = 0; k < N; ++k)
                  sum += (residual ? a : before)[i / N * N + k] * w.values[i % N * N + k];
                return sum;
              },
              20 * std::max(1e-5, rounding(element)));
        }
      }
    }
  }
}

TEST(RunInPlace, AResultThatWaitsForABarrier) {
  // The row is overwritten by what a whole row of the product decides.
  const Kernel kernel =
      jit("waits", {inout("x", {t, n}), weight("w", {n, n})}, [](Tensor x, Tensor w) {
        const std::int64_t N = x.size(1);
        loop_unroll(x.dim(0), {4}, [&](Index row, int rows) {
          const Tile a = view(x, {rows, N}, {row, 0});
          assemble(a - max(matmul(a, w), 1), x, {row, 0});
        });
      });
  constexpr std::int64_t N = 40;
  Packed w(Data::random(Element::kF32, {N, N}, 2), pools().one);
  for (std::int64_t T : {1, 4, 5, 21}) {
    const Data x = Data::random(Element::kF32, {T, N}, 3);
    check(
        kernel, x, {w.argument()},
        [&](const Data& before, std::int64_t i) {
          double largest = -1e30;
          for (std::int64_t m = 0; m < N; ++m) {
            double sum = 0;
            for (std::int64_t k = 0; k < N; ++k) sum += before[i / N * N + k] * w.values[m * N + k];
            largest = std::max(largest, sum);
          }
          return before[i] - largest;
        },
        1e-4);
  }
}

TEST(RunInPlace, MemoryMustNotBeShared) {
  const Kernel kernel = jit("add", {inout("x", {n}), in("y", {n})}, [](Tensor x, Tensor y) {
    assemble(view(x, {x.size(0)}, {0}) + view(y, {y.size(0)}, {0}), x, {0});
  });
  std::vector<float> memory(12, 1);
  const Argument x = argument(memory.data(), Element::kF32, {8});
  EXPECT_THROW(kernel.run(pools().one, std::vector{x, x}), KernelError);
  EXPECT_THROW(
      kernel.run(pools().one, std::vector{x, argument(memory.data() + 4, Element::kF32, {8})}),
      KernelError);
}

}  // namespace
}  // namespace tessera::tile::test
