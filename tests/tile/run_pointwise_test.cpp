// Elementwise chains, broadcasting, comparisons and casts.
#include "tests/tile/harness.h"

namespace tessera::tile::test {
namespace {

const Dim t = Dim::dynamic("t");
const Dim n = Dim::fixed("n");

TEST(RunPointwise, Chain) {
  const Kernel kernel =
      jit("chain", {in("a", {t, n}), in("b", {t, n}), out("y", {t, n})},
          [](Tensor a, Tensor b, Tensor y) {
            const std::int64_t n = a.size(1);
            loop_unroll(a.dim(0), {4}, [&](Index row, int rows) {
              const Tile u = view(a, {rows, n}, {row, 0});
              const Tile v = view(b, {rows, n}, {row, 0});
              const Tile e = exp(-u) * 0.5 + sqrt(v * v + 1);
              assemble(sigmoid(u) * maximum(v, 0.25) / e - minimum(u, v), y, {row, 0});
            });
          });
  for (Element element : {Element::kF32, Element::kBF16, Element::kF16}) {
    for (std::int64_t width : {1, 3, 16, 31, 33, 128}) {
      for (std::int64_t rows : {1, 2, 5, 19}) {
        Data a = Data::random(element, {rows, width}, 1, -6, 6);
        Data b = Data::random(element, {rows, width}, 2);
        Data y(element, {rows, width});
        run(kernel, {a.argument(), b.argument(), y.argument()}, {&y});
        expect_close(y, [&](std::int64_t i) {
          const double u = a[i], v = b[i];
          return 1 / (1 + std::exp(-u)) * std::max(v, 0.25) /
                     (std::exp(-u) * 0.5 + std::sqrt(v * v + 1)) -
                 std::min(u, v);
        });
      }
    }
  }
}

TEST(RunPointwise, Broadcasting) {
  const Kernel kernel = jit(
      "broadcast",
      {in("a", {3, n}), in("column", {3, 1}), in("row", {1, n}), in("last", {n}), out("y", {3, n})},
      [](Tensor a, Tensor column, Tensor row, Tensor last, Tensor y) {
        const std::int64_t n = a.size(1);
        assemble(view(a, {3, n}, {0, 0}) * view(column, {3, 1}, {0, 0}) +
                     view(row, {1, n}, {0, 0}) - view(last, {n}, {0}) +
                     2 * expand(view(column, {3, 1}, {0, 0}), {3, n}),
                 y, {0, 0});
      });
  for (std::int64_t width : {1, 7, 40}) {
    Data a = Data::random(Element::kF32, {3, width}, 1);
    Data column = Data::random(Element::kF32, {3, 1}, 2);
    Data row = Data::random(Element::kF32, {1, width}, 3);
    Data last = Data::random(Element::kF32, {width}, 4);
    Data y(Element::kF32, {3, width});
    run(kernel, {a.argument(), column.argument(), row.argument(), last.argument(), y.argument()},
        {&y});
    expect_close(y, [&](std::int64_t i) {
      return a[i] * column[i / width] + row[i % width] - last[i % width] + 2 * column[i / width];
    });
  }
}

TEST(RunPointwise, WhereAndComparisons) {
  const Kernel kernel =
      jit("where", {in("a", {2, n}), in("b", {2, n}), out("y", {6, 2, n})},
          [](Tensor a, Tensor b, Tensor y) {
            const std::int64_t n = a.size(1);
            const Tile u = view(a, {2, n}, {0, 0});
            const Tile v = view(b, {2, n}, {0, 0});
            int at = 0;
            for (const Tile& c : {u<v, u <= v, u> v, u >= v, equal(u, v), not_equal(u, v)}) {
              assemble(reshape(where(c, u, v * 10), {1, 2, n}), y, {at++, 0, 0});
            }
          });
  for (std::int64_t width : {1, 5, 16, 50}) {
    Data a = Data::random(Element::kF32, {2, width}, 1);
    Data b = Data::random(Element::kF32, {2, width}, 2);
    for (std::int64_t i = 0; i < 2 * width; i += 3) b.set(i, a[i]);
    a.set(0, std::nan(""));
    Data y(Element::kF32, {6, 2, width});
    run(kernel, {a.argument(), b.argument(), y.argument()}, {&y});
    expect_close(y, [&](std::int64_t i) {
      const std::int64_t which = i / (2 * width), j = i % (2 * width);
      const double u = a[j], v = b[j];
      const bool holds[] = {u<v, u <= v, u> v, u >= v, u == v, u != v};
      return holds[which] ? u : v * 10;
    });
  }
}

// Casting from each type to each, through the definition of the target type.
TEST(RunPointwise, Casts) {
  const Element all[] = {Element::kF32, Element::kBF16, Element::kF16, Element::kI32, Element::kI8};
  for (Element from : all) {
    for (Element to : all) {
      const Kernel kernel =
          jit("cast", {in("a", {2, n}, from), out("y", {2, n}, to)}, [to](Tensor a, Tensor y) {
            const std::int64_t n = a.size(1);
            assemble(cast(view(a, {2, n}, {0, 0}), to), y, {0, 0});
          });
      for (std::int64_t width : {1, 16, 37}) {
        SCOPED_TRACE(testing::Message()
                     << to_string(from) << " to " << to_string(to) << " width " << width);
        Data a = Data::random(from, {2, width}, 3, -120, 120);
        Data y(to, {2, width});
        run(kernel, {a.argument(), y.argument()}, {&y});
        Data expected(to, {2, width});
        const bool to_int = to == Element::kI32 || to == Element::kI8;
        for (std::int64_t i = 0; i < 2 * width; ++i)
          expected.set(i, to_int ? std::nearbyint(a[i]) : a[i]);
        EXPECT_TRUE(y.same_bits(expected));
      }
    }
  }
}

TEST(RunPointwise, CastInTheMiddleRounds) {
  const Kernel kernel =
      jit("rounded", {in("a", {2, n}, Element::kF32), out("y", {2, n}, Element::kF32)},
          [](Tensor a, Tensor y) {
            const std::int64_t n = a.size(1);
            assemble(cast(view(a, {2, n}, {0, 0}) * 3, Element::kBF16) + 1, y, {0, 0});
          });
  Data a = Data::random(Element::kF32, {2, 21}, 3);
  Data y(Element::kF32, {2, 21});
  run(kernel, {a.argument(), y.argument()}, {&y});
  expect_close(
      y, [&](std::int64_t i) { return to_float(to_bf16(static_cast<float>(a[i]) * 3.0f)) + 1.0; },
      1e-7);
}

TEST(RunPointwise, FullAndSteps) {
  // Every third element from the fourth on, the others constants.
  const Kernel kernel = jit("steps", {in("a", {2, 30}), out("y", {2, 40})}, [](Tensor a, Tensor y) {
    assemble(view(a, {2, 9}, {0, 3}, {.valid = {}, .step = {1, 3}}) * 2, y, {0, 0},
             {.valid = {}, .step = {1, 2}});
    assemble(full({2, 9}, 7), y, {0, 1}, {.valid = {}, .step = {1, 2}});
    assemble(full({2, 22}, -1), y, {0, 18});
  });
  Data a = Data::random(Element::kF32, {2, 30}, 3);
  Data y(Element::kF32, {2, 40});
  run(kernel, {a.argument(), y.argument()}, {&y});
  expect_close(y, [&](std::int64_t i) {
    const std::int64_t r = i / 40, j = i % 40;
    if (j >= 18) return -1.0;
    return j % 2 == 1 ? 7.0 : 2 * a[r * 30 + 3 + j / 2 * 3];
  });
}

}  // namespace
}  // namespace tessera::tile::test
