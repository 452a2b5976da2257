// Valid shapes, index tensors, locals, rotary embedding: what touches memory in unusual ways.
#include "tests/tile/harness.h"

namespace tessera::tile::test {
namespace {

const Dim t = Dim::dynamic("t");
const Dim n = Dim::fixed("n"), k = Dim::fixed("k");

TEST(RunMemory, ValidRowsEndExactly) {
  const Kernel kernel =
      jit("valid", {in("x", {t, n}), weight("w", {k, n}), out("y", {t, n}), out("z", {t, k})},
          [](Tensor x, Tensor w, Tensor y, Tensor z) {
            const std::int64_t N = x.size(1);
            const Index rows = x.dim(0);
            loop((rows + 7) / 8, [&](Index i) {
              const Tile a =
                  view(x, {8, N}, {i * 8, 0}, {.valid = {min(8, rows - i * 8), N}, .step = {}});
              assemble(a - max(a, 1), y, {i * 8, 0});
              assemble(matmul(a, w), z, {i * 8, 0});
            });
          });
  Packed w(Data::random(Element::kF32, {20, 30}, 2), pools().one);
  for (std::int64_t T : {1, 2, 7, 8, 9, 16, 17, 70}) {
    Data x = Data::random(Element::kF32, {T, 30}, 1), y(Element::kF32, {T, 30}),
         z(Element::kF32, {T, 20});
    run(kernel, {x.argument(), w.argument(), y.argument(), z.argument()}, {&y, &z});
    expect_close(y, [&](std::int64_t i) {
      double largest = -1e30;
      for (std::int64_t j = 0; j < 30; ++j) largest = std::max(largest, x[i / 30 * 30 + j]);
      return x[i] - largest;
    });
    expect_close(
        z,
        [&](std::int64_t i) {
          double sum = 0;
          for (std::int64_t j = 0; j < 30; ++j)
            sum += x[i / 20 * 30 + j] * w.values[i % 20 * 30 + j];
          return sum;
        },
        1e-5);
  }
}

TEST(RunMemory, ValidColumnsCountOnlyThemselves) {
  // A dynamic width, read in tiles of 64 columns: sums must not see what lies behind the row's end.
  const Dim w = Dim::dynamic("w");
  const Kernel kernel = jit("columns", {in("x", {3, w}), out("y", {3, w})}, [](Tensor x, Tensor y) {
    const Index width = x.dim(1);
    loop((width + 63) / 64, [&](Index i) {
      const Tile a =
          view(x, {3, 64}, {0, i * 64}, {.valid = {3, min(64, width - i * 64)}, .step = {}});
      assemble(a / sum(a, 1), y, {0, i * 64});
    });
  });
  for (std::int64_t W : {1, 15, 63, 64, 65, 130}) {
    Data x = Data::random(Element::kF32, {3, W}, 1, 1, 2), y(Element::kF32, {3, W});
    run(kernel, {x.argument(), y.argument()}, {&y});
    expect_close(y, [&](std::int64_t i) {
      const std::int64_t first = i % W / 64 * 64;
      double sum = 0;
      for (std::int64_t j = first; j < std::min(W, first + 64); ++j) sum += x[i / W * W + j];
      return x[i] / sum;
    });
  }
}

TEST(RunMemory, IndexTensorsChooseRows) {
  const Dim slots = Dim::dynamic("slots");
  const Kernel kernel = jit(
      "pages", {in("x", {t, n}), indices("slot", {t}), out("page", {slots, n})},
      [](Tensor x, Tensor slot, Tensor page) {
        const std::int64_t N = x.size(1);
        loop(x.dim(0), [&](Index i) { assemble(view(x, {1, N}, {i, 0}) * 2, page, {slot[i], 0}); });
      });
  Data x = Data::random(Element::kF32, {5, 20}, 1), slot(Element::kI32, {5}),
       page(Element::kBF16, {9, 20});
  const std::int64_t order[] = {7, 0, 3, 8, 4};
  for (std::int64_t i = 0; i < 5; ++i) slot.set(i, static_cast<double>(order[i]));
  run(kernel, {x.argument(), slot.argument(), page.argument()}, {&page});
  for (std::int64_t i = 0; i < 9; ++i) {
    const auto* at = std::find(order, order + 5, i);
    for (std::int64_t j = 0; j < 20; ++j) {
      if (at == order + 5) {
        EXPECT_TRUE(std::isnan(page[i * 20 + j]));  // nobody's row
      } else {
        EXPECT_NEAR(page[i * 20 + j], 2 * x[(at - order) * 20 + j], 0.02);
      }
    }
  }
  for (double bad : {9.0, -1.0}) {
    slot.set(2, bad);
    EXPECT_THROW(
        kernel.run(pools().one, std::vector{x.argument(), slot.argument(), page.argument()}),
        KernelError);
  }
}

TEST(RunMemory, LocalsCarryFromLoopToLoop) {
  // Rows are written in one loop and read by columns in the next.
  const Kernel kernel = jit("local", {in("x", {t, n}), out("y", {n, t})}, [](Tensor x, Tensor y) {
    const std::int64_t N = x.size(1);
    const Tensor kept = local("kept", Element::kF32, {x.dim(0), N});
    loop_unroll(x.dim(0), {4}, [&](Index row, int rows) {
      const Tile a = view(x, {rows, N}, {row, 0});
      assemble(a / sum(a, 1), kept, {row, 0});
    });
    loop_unroll(x.dim(0), {4}, [&](Index row, int rows) {
      assemble(transpose(view(kept, {rows, N}, {row, 0})), y, {0, row});
    });
  });
  for (std::int64_t T : {1, 3, 4, 21}) {
    Data x = Data::random(Element::kF32, {T, 18}, 1, 1, 2), y(Element::kF32, {18, T});
    run(kernel, {x.argument(), y.argument()}, {&y});
    expect_close(y, [&](std::int64_t i) {
      const std::int64_t r = i % T;
      double sum = 0;
      for (std::int64_t j = 0; j < 18; ++j) sum += x[r * 18 + j];
      return x[r * 18 + i / T] / sum;
    });
  }
}

TEST(RunMemory, NestedLoops) {
  const Dim b = Dim::dynamic("b"), s = Dim::dynamic("s");
  const Kernel kernel =
      jit("nested", {in("x", {b, s, n}), out("y", {b, n, s})}, [](Tensor x, Tensor y) {
        const std::int64_t N = x.size(2);
        parallel_loop(x.dim(0), [&](Index i) {
          loop(x.dim(1), [&](Index j) {
            const Tile a = reshape(view(x, {1, 1, N}, {i, j, 0}), {1, N});
            assemble(reshape(exp(a - max(a, 1)), {1, N, 1}), y, {i, 0, j});
          });
        });
      });
  for (const auto& z : {Shape{1, 1, 5}, {2, 3, 40}, {5, 7, 16}}) {
    const std::int64_t S = z[1], N = z[2];
    Data x = Data::random(Element::kF32, z, 1), y(Element::kF32, {z[0], N, S});
    run(kernel, {x.argument(), y.argument()}, {&y});
    expect_close(y, [&](std::int64_t i) {
      const std::int64_t row = i / (N * S) * S + i % S, j = i / S % N;
      double largest = -1e30;
      for (std::int64_t c = 0; c < N; ++c) largest = std::max(largest, x[row * N + c]);
      return std::exp(x[row * N + j] - largest);
    });
  }
}

TEST(RunMemory, AnOutputIsReadBack) {
  const Kernel kernel = jit("read_back", {in("x", {n, n}), out("y", {n, n}), out("z", {n, n})},
                            [](Tensor x, Tensor y, Tensor z) {
                              const std::int64_t N = x.size(0);
                              assemble(view(x, {N, N}, {0, 0}) * 2, y, {0, 0});
                              assemble(transpose(view(y, {N, N}, {0, 0})), z, {0, 0});
                            });
  for (std::int64_t N : {1, 8, 20}) {
    Data x = Data::random(Element::kF32, {N, N}, 1), y(Element::kF32, {N, N}),
         z(Element::kF32, {N, N});
    run(kernel, {x.argument(), y.argument(), z.argument()}, {&y, &z});
    expect_close(z, [&](std::int64_t i) { return 2 * x[i % N * N + i / N]; });
  }
}

// Both layouts on [t, heads, d], cos and sin [t, d / 2].
TEST(RunMemory, Rope) {
  for (const bool interleaved : {true, false}) {
    const Dim heads = Dim::fixed("heads"), d = Dim::fixed("d"), half = Dim::fixed("half");
    const Kernel kernel =
        jit("rope",
            {in("x", {t, heads, d}), in("cos", {t, half}, Element::kF32),
             in("sin", {t, half}, Element::kF32), out("y", {t, heads, d})},
            [interleaved](Tensor x, Tensor cos, Tensor sin, Tensor y) {
              const std::int64_t h = x.size(1), half = x.size(2) / 2;
              const std::int64_t step = interleaved ? 2 : 1, second = interleaved ? 1 : half;
              loop_unroll(x.dim(0), {4, 2}, [&](Index row, int rows) {
                const Access pairs{.valid = {}, .step = {1, 1, step}};
                const Tile a = view(x, {rows, h, half}, {row, 0, 0}, pairs);
                const Tile b = view(x, {rows, h, half}, {row, 0, second}, pairs);
                const Tile c = reshape(view(cos, {rows, half}, {row, 0}), {rows, 1, half});
                const Tile s = reshape(view(sin, {rows, half}, {row, 0}), {rows, 1, half});
                assemble(a * c - b * s, y, {row, 0, 0}, pairs);
                assemble(b * c + a * s, y, {row, 0, second}, pairs);
              });
            });
    for (Element element : {Element::kF32, Element::kBF16, Element::kF16}) {
      for (const auto& z : {Shape{1, 1, 2}, {5, 3, 14}, {2, 16, 64}, {7, 2, 96}}) {
        const std::int64_t H = z[1], D = z[2];
        Data x = Data::random(element, z, 1), y(element, z);
        Data cos = Data::random(Element::kF32, {z[0], D / 2}, 2),
             sin = Data::random(Element::kF32, {z[0], D / 2}, 3);
        run(kernel, {x.argument(), cos.argument(), sin.argument(), y.argument()}, {&y});
        expect_close(y, [&](std::int64_t i) {
          const std::int64_t at = i % D, base = i - at, row = i / D / H;
          const std::int64_t pair = interleaved ? at / 2 : at % (D / 2);
          const bool first = interleaved ? at % 2 == 0 : at < D / 2;
          const double a = x[base + (interleaved ? 2 * pair : pair)];
          const double b = x[base + (interleaved ? 2 * pair + 1 : pair + D / 2)];
          const double c = cos[row * D / 2 + pair], s = sin[row * D / 2 + pair];
          return first ? a * c - b * s : b * c + a * s;
        });
      }
    }
  }
}

}  // namespace
}  // namespace tessera::tile::test
