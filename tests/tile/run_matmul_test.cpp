// Matmuls: of tiles, with packed weights, split into segments, with work before and behind.
#include "tests/tile/harness.h"

namespace tessera::tile::test {
namespace {

const Dim t = Dim::dynamic("t");
const Dim m = Dim::fixed("m"), n = Dim::fixed("n"), k = Dim::fixed("k");
constexpr Element kFloats[] = {Element::kF32, Element::kBF16, Element::kF16};

double dot(const Data& x, std::int64_t row, const Data& w, std::int64_t column) {
  const std::int64_t K = w.shape()[1];
  double sum = 0;
  for (std::int64_t i = 0; i < K; ++i) sum += x[row * K + i] * w[column * K + i];
  return sum;
}

TEST(RunMatmul, TilesInEveryOrder) {
  for (const bool a_trans : {false, true}) {
    for (const bool b_trans : {false, true}) {
      const Kernel kernel = jit(
          "tiles",
          {in("a", a_trans ? std::vector<Dim>{k, m} : std::vector<Dim>{m, k}),
           in("b", b_trans ? std::vector<Dim>{n, k} : std::vector<Dim>{k, n}), out("y", {m, n})},
          [=](Tensor a, Tensor b, Tensor y) {
            const Tile u = view(a, {a.size(0), a.size(1)}, {0, 0});
            const Tile v = view(b, {b.size(0), b.size(1)}, {0, 0});
            assemble(matmul(u, v, {.a_trans = a_trans, .b_trans = b_trans}) + 1, y, {0, 0});
          });
      for (const auto& s : {Shape{1, 1, 1}, {3, 5, 7}, {4, 33, 16}, {2, 16, 65}, {17, 20, 34}}) {
        const std::int64_t M = s[0], N = s[1], K = s[2];
        Data a = Data::random(Element::kBF16, a_trans ? Shape{K, M} : Shape{M, K}, 1);
        Data b = Data::random(Element::kBF16, b_trans ? Shape{N, K} : Shape{K, N}, 2);
        Data y(Element::kF32, {M, N});
        run(kernel, {a.argument(), b.argument(), y.argument()}, {&y});
        expect_close(
            y,
            [&](std::int64_t i) {
              double sum = 1;
              for (std::int64_t j = 0; j < K; ++j) {
                sum += (a_trans ? a[j * M + i / N] : a[i / N * K + j]) *
                       (b_trans ? b[i % N * K + j] : b[j * N + i % N]);
              }
              return sum;
            },
            1e-5);
      }
    }
  }
}

TEST(RunMatmul, PackedWeights) {
  const Kernel kernel =
      jit("packed", {in("x", {t, k}), weight("w", {n, k}), out("y", {t, n}, Element::kF32)},
          [](Tensor x, Tensor w, Tensor y) {
            loop_unroll(x.dim(0), {13, 8, 4, 2}, [&](Index row, int rows) {
              assemble(matmul(view(x, {rows, x.size(1)}, {row, 0}), w), y, {row, 0});
            });
          });
  for (Element element : kFloats) {
    for (const auto& s : {Shape{1, 1}, {32, 32}, {33, 5}, {64, 64}, {100, 17}, {40, 130}}) {
      Packed w(Data::random(element, s, 2), pools().one);
      for (std::int64_t rows : {1, 2, 3, 8, 9, 13, 17, 30}) {
        SCOPED_TRACE(testing::Message()
                     << to_string(element) << " " << rows << " rows, n " << s[0] << " k " << s[1]);
        Data x = Data::random(element, {rows, s[1]}, 1);
        Data y(Element::kF32, {rows, s[0]});
        run(kernel, {x.argument(), w.argument(), y.argument()}, {&y});
        expect_close(y, [&](std::int64_t i) { return dot(x, i / s[0], w.values, i % s[0]); }, 2e-5);
      }
    }
  }
}

// x as a product by quantised weights sees it: int8 for each row, or for each group of inputs.
std::vector<double> quantised(const Data& x, std::int64_t group) {
  const std::int64_t K = x.shape()[1];
  std::vector<double> rounded;
  for (std::int64_t i = 0; i < count(x.shape()); ++i) {
    const std::int64_t row = i / K * K;
    const std::int64_t first = row + (i - row) / group * group;
    float largest = 0;
    for (std::int64_t j = first; j < std::min(row + K, first + group); ++j) {
      largest = std::max(largest, static_cast<float>(std::abs(x[j])));
    }
    const float inverse = largest == 0 ? 0 : 127.0f / largest;
    rounded.push_back(std::nearbyint(static_cast<float>(x[i]) * inverse) *
                      static_cast<double>(largest / 127.0f));
  }
  return rounded;
}

struct QuantisedWeight {
  QuantisedWeight(Element element, const Shape& shape) : element(element) {
    const Data source = Data::random(Element::kF32, shape, 2);
    packed = cpu::pack({source.data(), DType::kF32, shape[0], shape[1], shape[1], 1},
                       cpu::weight_layout(element), pools().two);
    values.resize(static_cast<std::size_t>(count(shape)));
    cpu::unpack(packed.shape(), packed.data(), values.data());
  }
  Argument argument() const {
    return packed_argument(packed.data(), element, packed.shape().n, packed.shape().k);
  }
  Element element;
  cpu::PackedWeight packed;
  std::vector<double> values;
};

TEST(RunMatmul, QuantisedWeights) {
  const Kernel kernel =
      jit("quantised",
          {in("x", {t, k}, Element::kF32), weight("w", {n, k}), out("y", {t, n}, Element::kF32)},
          [](Tensor x, Tensor w, Tensor y) {
            loop_unroll(x.dim(0), {13, 8, 4, 2}, [&](Index row, int rows) {
              assemble(matmul(view(x, {rows, x.size(1)}, {row, 0}), w), y, {row, 0});
            });
          });
  for (Element element : {Element::kI8, Element::kI4}) {
    for (const auto& s : {Shape{1, 1}, {32, 32}, {33, 5}, {64, 64}, {100, 17}, {40, 130}}) {
      const QuantisedWeight w(element, s);
      for (std::int64_t rows : {1, 2, 3, 8, 9, 13, 17, 30}) {
        SCOPED_TRACE(testing::Message()
                     << to_string(element) << " " << rows << " rows, n " << s[0] << " k " << s[1]);
        Data x = Data::random(Element::kF32, {rows, s[1]}, 1);
        Data y(Element::kF32, {rows, s[0]});
        run(kernel, {x.argument(), w.argument(), y.argument()}, {&y});
        const std::vector<double> rounded = quantised(x, element == Element::kI4 ? 32 : s[1]);
        const auto expected = [&](std::int64_t i) {
          double sum = 0;
          for (std::int64_t j = 0; j < s[1]; ++j) {
            sum += rounded[static_cast<std::size_t>(i / s[0] * s[1] + j)] *
                   w.values[static_cast<std::size_t>(i % s[0] * s[1] + j)];
          }
          return sum;
        };
        expect_close(y, expected, 2e-5);
      }
    }
  }
}

// Rows that a kernel makes itself, and an epilogue behind the product.
TEST(RunMatmul, QuantisedWeightsTakeWhatAKernelComputes) {
  const Kernel kernel = jit("quantised_chain",
                            {in("x", {t, k}, Element::kF32), weight("w", {n, k}, Element::kI4),
                             out("y", {t, n}, Element::kF32)},
                            [](Tensor x, Tensor w, Tensor y) {
                              loop_unroll(x.dim(0), {8, 4, 2}, [&](Index row, int rows) {
                                const Tile doubled = view(x, {rows, x.size(1)}, {row, 0}) * 2;
                                assemble(matmul(doubled, w) + 1, y, {row, 0});
                              });
                            });
  const QuantisedWeight w(Element::kI4, {70, 96});
  for (std::int64_t rows : {1, 5, 17, 40}) {
    Data x = Data::random(Element::kF32, {rows, 96}, 3);
    Data y(Element::kF32, {rows, 70});
    run(kernel, {x.argument(), w.argument(), y.argument()}, {&y});
    const std::vector<double> rounded = quantised(x, 32);  // a factor of 2 changes no rounding
    expect_close(
        y,
        [&](std::int64_t i) {
          double sum = 1;
          for (std::int64_t j = 0; j < 96; ++j) {
            sum += 2 * rounded[static_cast<std::size_t>(i / 70 * 96 + j)] *
                   w.values[static_cast<std::size_t>(i % 70 * 96 + j)];
          }
          return sum;
        },
        2e-5);
  }
}

// A row does not depend on how many rows are computed with it.
TEST(RunMatmul, RowsAreTheSameInEveryCompany) {
  const Kernel kernel =
      jit("company", {in("x", {t, k}), weight("w", {n, k}), out("y", {t, n}, Element::kF32)},
          [](Tensor x, Tensor w, Tensor y) {
            loop_unroll(x.dim(0), {8, 4, 2}, [&](Index row, int rows) {
              assemble(matmul(view(x, {rows, x.size(1)}, {row, 0}), w), y, {row, 0});
            });
          });
  for (Element element : kFloats) {
    Packed w(Data::random(element, {70, 129}, 2), pools().one);
    Data x = Data::random(element, {15, 129}, 1);
    Data all(Element::kF32, {15, 70});
    run(kernel, {x.argument(), w.argument(), all.argument()}, {&all});
    for (std::int64_t row = 0; row < 15; ++row) {
      Data one_x(element, {1, 129}), one(Element::kF32, {1, 70});
      for (std::int64_t i = 0; i < 129; ++i) one_x.set(i, x[row * 129 + i]);
      run(kernel, {one_x.argument(), w.argument(), one.argument()}, {&one});
      for (std::int64_t i = 0; i < 70; ++i) ASSERT_EQ(one[i], all[row * 70 + i]) << row << " " << i;
    }
  }
}

TEST(RunMatmul, SegmentsGoStraightToTheirTensors) {
  // 3 heads of 13 + 27 columns, each part to another tensor, heads first; none a multiple of a
  // vector.
  const Kernel kernel = jit(
      "segments",
      {in("x", {t, k}), weight("w", {n, k}), out("a", {3, t, 13}),
       out("b", {t, 3, 27}, Element::kF32)},
      [](Tensor x, Tensor w, Tensor a, Tensor b) {
        loop_unroll(x.dim(0), {4}, [&](Index row, int rows) {
          const Tile y = reshape(matmul(view(x, {rows, x.size(1)}, {row, 0}), w), {rows, 3, 40});
          assemble(transpose(slice(y, {rows, 3, 13}, {0, 0, 0}), {1, 0, 2}), a, {0, row, 0});
          assemble(slice(y, {rows, 3, 27}, {0, 0, 13}) * 2, b, {row, 0, 0});
        });
      });
  for (Element element : kFloats) {
    for (std::int64_t T : {1, 5, 11}) {
      Data x = Data::random(element, {T, 50}, 1);
      Packed w(Data::random(element, {120, 50}, 2), pools().one);
      Data a(element, {3, T, 13}), b(Element::kF32, {T, 3, 27});
      run(kernel, {x.argument(), w.argument(), a.argument(), b.argument()}, {&a, &b});
      expect_close(
          a, [&](std::int64_t i) { return dot(x, i / 13 % T, w.values, i / 13 / T * 40 + i % 13); },
          2e-5);
      expect_close(
          b,
          [&](std::int64_t i) {
            return 2 * dot(x, i / 81, w.values, i / 27 % 3 * 40 + 13 + i % 27);
          },
          2e-5);
    }
  }
  const std::vector<Argument> shapes = {
      argument(nullptr, Element::kBF16, {5, 50}), packed_argument(nullptr, Element::kBF16, 120, 50),
      argument(nullptr, Element::kBF16, {3, 5, 13}), argument(nullptr, Element::kF32, {5, 3, 27})};
  EXPECT_EQ(kernel.stage("scratch", shapes).find("scratch t"), std::string::npos)
      << "an intermediate buffer";
}

TEST(RunMatmul, BiasAndActivationBehind) {
  const Kernel kernel =
      jit("bias",
          {in("x", {t, k}), weight("w", {n, k}), in("bias", {n}, Element::kF32),
           in("residual", {t, n}), out("y", {t, n})},
          [](Tensor x, Tensor w, Tensor bias, Tensor residual, Tensor y) {
            const std::int64_t N = y.size(1);
            loop_unroll(x.dim(0), {8, 2}, [&](Index row, int rows) {
              const Tile h = matmul(view(x, {rows, x.size(1)}, {row, 0}), w) + view(bias, {N}, {0});
              assemble(h * sigmoid(h) + view(residual, {rows, N}, {row, 0}), y, {row, 0});
            });
          });
  for (Element element : kFloats) {
    for (std::int64_t N : {64, 45}) {
      Data x = Data::random(element, {11, 24}, 1), bias = Data::random(Element::kF32, {N}, 3);
      Packed w(Data::random(element, {N, 24}, 2), pools().one);
      Data residual = Data::random(element, {11, N}, 4), y(element, {11, N});
      run(kernel, {x.argument(), w.argument(), bias.argument(), residual.argument(), y.argument()},
          {&y});
      expect_close(
          y,
          [&](std::int64_t i) {
            const double h = dot(x, i / N, w.values, i % N) + bias[i % N];
            return h / (1 + std::exp(-h)) + residual[i];
          },
          5e-5);
    }
  }
}

TEST(RunMatmul, TwoInARowWithWorkBetween) {
  const Dim h = Dim::fixed("h");
  const Kernel kernel =
      jit("mlp", {in("x", {t, k}), weight("up", {h, k}), weight("down", {n, h}), out("y", {t, n})},
          [](Tensor x, Tensor up, Tensor down, Tensor y) {
            loop_unroll(x.dim(0), {4}, [&](Index row, int rows) {
              const Tile a = matmul(view(x, {rows, x.size(1)}, {row, 0}), up);
              assemble(matmul(cast(maximum(a, 0), x.element()), down), y, {row, 0});
            });
          });
  for (Element element : kFloats) {
    for (const auto& s : {Shape{20, 33, 50}, {64, 32, 32}}) {
      const std::int64_t K = s[0], H = s[1], N = s[2], T = 7;
      Data x = Data::random(element, {T, K}, 1);
      Packed up(Data::random(element, {H, K}, 2), pools().one),
          down(Data::random(element, {N, H}, 3), pools().one);
      Data y(element, {T, N});
      run(kernel, {x.argument(), up.argument(), down.argument(), y.argument()}, {&y});
      Data hidden(element, {T, H});
      for (std::int64_t i = 0; i < T * H; ++i)
        hidden.set(i, std::max(0.0, dot(x, i / H, up.values, i % H)));
      expect_close(
          y, [&](std::int64_t i) { return dot(hidden, i / N, down.values, i % N); },
          element == Element::kF32 ? 5e-5 : 2e-2);
    }
  }
}

TEST(RunMatmul, RowsOfAnIndexTensor) {
  // The left operand's rows are gathered: they get memory of their own first.
  const Kernel kernel =
      jit("gather",
          {in("x", {50, k}), indices("which", {t}), weight("w", {n, k}),
           out("y", {t, n}, Element::kF32)},
          [](Tensor x, Tensor which, Tensor w, Tensor y) {
            loop(which.dim(0), [&](Index i) {
              assemble(matmul(view(x, {1, x.size(1)}, {which[i], 0}), w), y, {i, 0});
            });
          });
  Data x = Data::random(Element::kBF16, {50, 24}, 1), which(Element::kI32, {9});
  for (std::int64_t i = 0; i < 9; ++i) which.set(i, static_cast<double>(i * 17 % 50));
  Packed w(Data::random(Element::kBF16, {40, 24}, 2), pools().one);
  Data y(Element::kF32, {9, 40});
  run(kernel, {x.argument(), which.argument(), w.argument(), y.argument()}, {&y});
  expect_close(y, [&](std::int64_t i) { return dot(x, i / 40 * 17 % 50, w.values, i % 40); }, 2e-5);
}

TEST(RunMatmul, WeightsThatTheLibraryPacks) {
  const Kernel kernel = jit("packed", {in("x", {1, 40}), weight("w", {33, 40}), out("y", {1, 33})},
                            [](Tensor x, Tensor w, Tensor y) {
                              const Tile a = view(x, {1, 40}, {0, 0});
                              const bool quantised = !is_float(w.element());
                              assemble(matmul(quantised ? a : cast(a, w.element()), w), y, {0, 0});
                            });
  Data rows = Data::random(Element::kF32, {33, 40}, 1), x = Data::random(Element::kF32, {1, 40}, 2),
       y(Element::kF32, {1, 33});
  const std::pair<Element, double> forms[] = {{Element::kF32, 1e-5},
                                              {Element::kBF16, 0.1},
                                              {Element::kF16, 0.01},
                                              {Element::kI8, 0.3},
                                              {Element::kI4, 4}};
  for (const auto& [element, tolerance] : forms) {
    const PackedWeight w(rows.data(), Element::kF32, 33, 40, element, 2);
    run(kernel, {x.argument(), w.argument(), y.argument()}, {&y});
    for (std::int64_t i = 0; i < 33; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < 40; ++j) sum += x[j] * rows[i * 40 + j];
      EXPECT_NEAR(y[i], sum, tolerance) << to_string(element);
    }
  }
}

TEST(RunMatmul, WeightsThatCannotBePacked) {
  const float rows[8] = {};
  const auto number_of = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const KernelError& error) {
      return error.number();
    }
    return "none";
  };
  EXPECT_EQ(number_of([&] { PackedWeight(rows, Element::kI8, 2, 4); }), "TL301");
  EXPECT_EQ(number_of([&] { PackedWeight(rows, Element::kF32, 2, 4, Element::kI32); }), "TL301");
  EXPECT_EQ(number_of([&] { PackedWeight(nullptr, Element::kF32, 2, 4); }), "TL301");
  EXPECT_EQ(number_of([&] { PackedWeight(rows, Element::kF32, 0, 4); }), "TL301");
}

}  // namespace
}  // namespace tessera::tile::test
