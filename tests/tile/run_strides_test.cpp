// Tensors with gaps between their rows: what lies in the gaps is neither read nor written.
#include <gmock/gmock.h>

#include "tests/tile/harness.h"

namespace tessera::tile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Dim t = Dim::dynamic("t");
const Dim n = Dim::fixed("n"), heads = Dim::fixed("heads"), k = Dim::fixed("k");

// A tensor [rows, heads, n] within one of wider rows and heads, whose other elements are NaN.
class Gapped {
 public:
  Gapped(Element element, Shape shape, std::int64_t row_gap, std::int64_t head_gap = 0)
      : shape_(std::move(shape)),
        head_stride_(shape_.back() + head_gap),
        row_stride_((shape_.size() == 3 ? shape_[1] * head_stride_ : shape_.back()) + row_gap),
        memory_(element, {shape_[0] * row_stride_}) {}
  static Gapped random(Element element, Shape shape, std::int64_t row_gap, std::int64_t head_gap,
                       unsigned seed) {
    Gapped result(element, shape, row_gap, head_gap);
    const Data values = Data::random(element, shape, seed);
    for (std::int64_t i = 0; i < test::count(shape); ++i)
      result.memory_.set(result.at(i), values[i]);
    return result;
  }

  Argument argument() {
    if (shape_.size() == 2) {
      return strided_argument(memory_.data(), memory_.element(), {shape_[0], shape_[1]},
                              {row_stride_});
    }
    return strided_argument(memory_.data(), memory_.element(), {shape_[0], shape_[1], shape_[2]},
                            {row_stride_, head_stride_});
  }
  double operator[](std::int64_t i) const { return memory_[at(i)]; }
  std::int64_t count() const { return test::count(shape_); }
  void poison() { std::memset(memory_.data(), 0xff, memory_.size()); }
  const Data& memory() const { return memory_; }

  // Nothing but the elements differs from NaN, and the guards around them are intact.
  bool gaps_intact() const {
    Data copy = memory_;
    for (std::int64_t i = 0; i < count(); ++i)
      copy.set(at(i), std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t i = 0; i < test::count(copy.shape()); ++i) {
      if (!std::isnan(copy[i])) return false;
    }
    return memory_.guards_intact();
  }

 private:
  std::int64_t at(std::int64_t i) const {
    const std::int64_t N = shape_.back(), H = shape_.size() == 3 ? shape_[1] : 1;
    return i / (N * H) * row_stride_ + i / N % H * head_stride_ + i % N;
  }

  Shape shape_;
  std::int64_t head_stride_;
  std::int64_t row_stride_;
  Data memory_;
};

void check(const Gapped& y, const std::function<double(std::int64_t)>& expected,
           double tolerance = 2e-6) {
  Data dense(y.memory().element(), {y.count()});
  for (std::int64_t i = 0; i < y.count(); ++i) dense.set(i, y[i]);
  expect_close(dense, expected, tolerance);
  EXPECT_TRUE(y.gaps_intact());
}

TEST(RunStrides, RowsApart) {
  const Kernel kernel = jit("rows", {in("x", {t, n}), out("y", {t, n})}, [](Tensor x, Tensor y) {
    loop_unroll(x.dim(0), {4}, [&](Index row, int rows) {
      const Tile a = view(x, {rows, x.size(1)}, {row, 0});
      assemble(a / sum(a * a, 1), y, {row, 0});
    });
  });
  for (Element element : {Element::kF32, Element::kBF16, Element::kF16}) {
    const bool all = element == Element::kF32;
    for (std::int64_t N :
         all ? std::vector<std::int64_t>{1, 7, 16, 17, 33, 100} : std::vector<std::int64_t>{17}) {
      for (std::int64_t T : {1, 2, 5, 17, 70}) {
        for (std::int64_t gap_of_x : {0, 3}) {
          for (std::int64_t gap_of_y : {0, 5}) {
            Gapped x = Gapped::random(element, {T, N}, gap_of_x, 0, 1);
            Gapped y(element, {T, N}, gap_of_y);
            std::vector<Data> results;
            for (ThreadPool* pool : {&pools().one, &pools().two, &pools().three}) {
              y.poison();
              kernel.run(*pool, std::vector{x.argument(), y.argument()});
              results.push_back(y.memory());
            }
            EXPECT_TRUE(results[0].same_bits(results[1]) && results[0].same_bits(results[2]));
            check(y, [&](std::int64_t i) {
              double sum = 0;
              for (std::int64_t j = 0; j < N; ++j) sum += x[i / N * N + j] * x[i / N * N + j];
              return x[i] / sum;
            });
          }
        }
      }
    }
  }
}

TEST(RunStrides, HeadsApart) {
  // Also stored by indices, and with the heads before the rows in memory.
  const Kernel kernel =
      jit("heads", {in("x", {t, heads, n}), out("y", {t, heads, n}), out("z", {heads, t, n})},
          [](Tensor x, Tensor y, Tensor z) {
            loop(x.dim(0), [&](Index row) {
              const Tile a = view(x, {1, x.size(1), x.size(2)}, {row, 0, 0});
              assemble(a + 1, y, {row, 0, 0});
              assemble_at(a * 2, z, {axis(1), row + axis(0), axis(2)});
            });
          });
  for (std::int64_t N : {1, 7, 16, 33}) {
    for (std::int64_t T : {1, 3, 17}) {
      Gapped x = Gapped::random(Element::kF32, {T, 3, N}, 2, 5, 1);
      Gapped y(Element::kF32, {T, 3, N}, 4, 1), z(Element::kF32, {3, T, N}, 0, 3);
      kernel.run(pools().two, std::vector{x.argument(), y.argument(), z.argument()});
      check(y, [&](std::int64_t i) { return x[i] + 1; });
      check(z, [&](std::int64_t i) {
        const std::int64_t head = i / (T * N), row = i / N % T;
        return 2 * x[(row * 3 + head) * N + i % N];
      });
      // The other way round in memory: strides need not fall.
      Data turned = Data::random(Element::kF32, {3, T, N}, 2);
      const Argument heads_first =
          strided_argument(turned.data(), Element::kF32, {T, 3, N}, {N, T * N});
      y.poison();
      z.poison();
      kernel.run(pools().two, std::vector{heads_first, y.argument(), z.argument()});
      check(z, [&](std::int64_t i) { return 2 * turned[i]; });
    }
  }
}

TEST(RunStrides, OperandsAndResultsOfProducts) {
  const Kernel kernel = jit("product", {in("x", {t, k}), weight("w", {n, k}), out("y", {t, n})},
                            [](Tensor x, Tensor w, Tensor y) {
                              loop_unroll(x.dim(0), {8, 4, 2}, [&](Index row, int rows) {
                                const Tile a = view(x, {rows, x.size(1)}, {row, 0});
                                assemble(matmul(cast(a, w.element()), w), y, {row, 0});
                              });
                            });
  for (Element element : {Element::kF32, Element::kBF16}) {
    for (std::int64_t N : {20, 64}) {
      Packed w(Data::random(element, {N, 50}, 2), pools().one);
      for (std::int64_t T : {1, 3, 8, 21}) {
        Gapped x = Gapped::random(element, {T, 50}, 6, 0, 1), y(Element::kF32, {T, N}, 3);
        kernel.run(pools().two, std::vector{x.argument(), w.argument(), y.argument()});
        check(
            y,
            [&](std::int64_t i) {
              double sum = 0;
              for (std::int64_t j = 0; j < 50; ++j)
                sum += x[i / N * 50 + j] * w.values[i % N * 50 + j];
              return sum;
            },
            1e-5);
      }
    }
  }
}

TEST(RunStrides, RowsThatRepeat) {
  // An input may have stride 0: one row for all.
  const Kernel kernel = jit(
      "repeat", {in("x", {t, n}), in("row", {t, n}), out("y", {t, n})},
      [](Tensor x, Tensor row, Tensor y) {
        loop(x.dim(0), [&](Index i) {
          assemble(view(x, {1, x.size(1)}, {i, 0}) * view(row, {1, x.size(1)}, {i, 0}), y, {i, 0});
        });
      });
  Data x = Data::random(Element::kF32, {5, 20}, 1), row = Data::random(Element::kF32, {20}, 2),
       y(Element::kF32, {5, 20});
  run(kernel,
      {x.argument(), strided_argument(row.data(), Element::kF32, {5, 20}, {0}), y.argument()},
      {&y});
  expect_close(y, [&](std::int64_t i) { return x[i] * row[i % 20]; });
}

TEST(RunStrides, IndexTensors) {
  const Kernel kernel = jit(
      "rows_by_index", {in("x", {5, n}), indices("at", {t, 1}), out("y", {t, n})},
      [](Tensor x, Tensor at, Tensor y) {
        loop(y.dim(0),
             [&](Index i) { assemble(view(x, {1, x.size(1)}, {at.at({i, 0}), 0}), y, {i, 0}); });
      });
  Data x = Data::random(Element::kF32, {5, 20}, 1), at(Element::kI32, {12}),
       y(Element::kF32, {4, 20});
  for (std::int64_t i = 0; i < 12; ++i) at.set(i, i % 3 == 0 ? static_cast<double>(4 - i / 3) : 99);
  const Argument gaps = strided_argument(at.data(), Element::kI32, {4, 1}, {3});
  run(kernel, {x.argument(), gaps, y.argument()}, {&y});
  expect_close(y, [&](std::int64_t i) { return x[(4 - i / 20) * 20 + i % 20]; });
  at.set(6, 5);
  EXPECT_THROW(kernel.run(pools().one, std::vector{x.argument(), gaps, y.argument()}), KernelError);
}

TEST(RunStrides, TensorsWithoutGapsKeepTheirCode) {
  const Kernel kernel = jit("copy", {in("x", {t, n}), out("y", {t, n})}, [](Tensor x, Tensor y) {
    loop(x.dim(0), [&](Index i) { assemble(view(x, {1, x.size(1)}, {i, 0}), y, {i, 0}); });
  });
  const auto text = [&](std::int64_t rows, std::int64_t stride) {
    return kernel.stage("trace",
                        std::vector{strided_argument(nullptr, Element::kF32, {rows, 8}, {stride}),
                                    argument(nullptr, Element::kF32, {rows, 8})});
  };
  EXPECT_THAT(text(20, 8), Not(HasSubstr("strides")));
  EXPECT_THAT(text(1, 9), Not(HasSubstr("strides")));  // of one row
  EXPECT_THAT(text(20, 9), HasSubstr("in x: fp32[t, 8] strides [x@0, 1]\n  out y: fp32[t, 8]\n"));
}

// Two tensors of one allocation.
bool runs_together(const std::vector<std::int64_t>& dims_of_x,
                   std::vector<std::int64_t> strides_of_x, std::int64_t y_begin,
                   std::vector<std::int64_t> strides_of_y) {
  const Kernel kernel =
      jit("beside", {in("x", {t, heads, n}), out("y", {t, heads, n})}, [](Tensor x, Tensor y) {
        loop(x.dim(0), [&](Index i) {
          assemble(view(x, {1, x.size(1), x.size(2)}, {i, 0, 0}), y, {i, 0, 0});
        });
      });
  std::vector<float> memory(1000, 1.0f);
  const auto place = [&](std::int64_t begin, const std::vector<std::int64_t>& strides) {
    return strided_argument(memory.data() + begin, Element::kF32,
                            {dims_of_x[0], dims_of_x[1], dims_of_x[2]}, {strides[0], strides[1]});
  };
  try {
    kernel.run(pools().one, std::vector{place(0, strides_of_x), place(y_begin, strides_of_y)});
    return true;
  } catch (const KernelError& error) {
    EXPECT_EQ(error.number(), "TL302") << error.what();
    return false;
  }
}

TEST(RunStrides, ColumnsOfOneMatrixAreApart) {
  // 4 rows of 1 head of 8 values in rows of 20.
  EXPECT_TRUE(runs_together({4, 1, 8}, {20, 8}, 8, {20, 8}));
  EXPECT_TRUE(runs_together({4, 1, 8}, {20, 8}, 12, {20, 8}));
  EXPECT_FALSE(runs_together({4, 1, 8}, {20, 8}, 7, {20, 8}));
  EXPECT_FALSE(runs_together({4, 1, 8}, {20, 8}, 13, {20, 8}));  // runs into the next row
  EXPECT_FALSE(runs_together({4, 1, 8}, {20, 8}, 19, {20, 8}));
  EXPECT_FALSE(runs_together({4, 1, 8}, {20, 8}, 20, {20, 8}));
  EXPECT_TRUE(runs_together({4, 1, 8}, {20, 8}, 80, {20, 8}));  // behind all of it
  // Heads of 8 and 8 values in turn, 3 to a row.
  EXPECT_TRUE(runs_together({4, 3, 8}, {48, 16}, 8, {48, 16}));
  EXPECT_FALSE(runs_together({4, 3, 8}, {48, 16}, 9, {48, 16}));
  EXPECT_TRUE(runs_together({4, 3, 8}, {60, 16}, 8, {60, 16}));
  EXPECT_FALSE(runs_together({4, 3, 8}, {60, 16}, 60, {60, 16}));
  // Other distances: not shown to be apart.
  EXPECT_FALSE(runs_together({4, 3, 8}, {48, 16}, 8, {52, 16}));
}

}  // namespace
}  // namespace tessera::tile::test
