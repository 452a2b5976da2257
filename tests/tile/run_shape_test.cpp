// Reductions, transposes, reshapes, concatenations.
#include "tests/tile/harness.h"

namespace tessera::tile::test {
namespace {

const Dim p = Dim::fixed("p"), q = Dim::fixed("q"), r = Dim::fixed("r");

void each_shape(const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& check) {
  for (const auto& s :
       {Shape{1, 1, 1}, {2, 3, 4}, {3, 5, 17}, {4, 16, 33}, {17, 2, 64}, {5, 40, 3}}) {
    SCOPED_TRACE(testing::Message() << s[0] << " " << s[1] << " " << s[2]);
    check(s[0], s[1], s[2]);
  }
}

TEST(RunShape, SumAndMaxOverEachAxis) {
  for (int axis : {0, 1, 2}) {
    const Kernel kernel =
        jit("reduce", {in("a", {p, q, r}), out("s", {p, q, r}), out("m", {p, q, r})},
            [axis](Tensor a, Tensor s, Tensor m) {
              const Indices shape = {a.size(0), a.size(1), a.size(2)};
              const Tile x = view(a, shape, {0, 0, 0});
              assemble(expand(sum(x, axis), shape), s, {0, 0, 0});
              assemble(x - max(x * 2, axis), m, {0, 0, 0});
            });
    each_shape([&](std::int64_t P, std::int64_t Q, std::int64_t R) {
      Data a = Data::random(Element::kF32, {P, Q, R}, 1);
      Data s(Element::kF32, {P, Q, R}), m(Element::kF32, {P, Q, R});
      run(kernel, {a.argument(), s.argument(), m.argument()}, {&s, &m});
      const std::int64_t extent[] = {P, Q, R}, stride[] = {Q * R, R, 1};
      const auto along = [&](std::int64_t i, bool largest) {
        const std::int64_t first = i - i / stride[axis] % extent[axis] * stride[axis];
        double total = largest ? -1e30 : 0;
        for (std::int64_t j = 0; j < extent[axis]; ++j) {
          const double x = a[first + j * stride[axis]];
          total = largest ? std::max(total, 2 * x) : total + x;
        }
        return total;
      };
      expect_close(s, [&](std::int64_t i) { return along(i, false); });
      expect_close(m, [&](std::int64_t i) { return a[i] - along(i, true); });
    });
  }
}

TEST(RunShape, Softmax) {
  const Kernel kernel = jit("softmax", {in("a", {p, r}), out("y", {p, r})}, [](Tensor a, Tensor y) {
    const Tile x = view(a, {a.size(0), a.size(1)}, {0, 0});
    const Tile e = exp(x - max(x, 1));
    assemble(e / sum(e, 1), y, {0, 0});
  });
  for (std::int64_t R : {1, 5, 16, 100, 257}) {
    Data a = Data::random(Element::kBF16, {6, R}, 1, -8, 8);
    Data y(Element::kF32, {6, R});
    run(kernel, {a.argument(), y.argument()}, {&y});
    expect_close(y, [&](std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = 0; j < R; ++j) sum += std::exp(a[i / R * R + j] - a[i]);
      return 1 / sum;
    });
  }
}

TEST(RunShape, Transposes) {
  const std::vector<std::vector<int>> all = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                             {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const std::vector<int>& perm : all) {
    const Dim dims[] = {p, q, r};
    const Kernel kernel = jit(
        "transpose", {in("a", {p, q, r}), out("y", {dims[perm[0]], dims[perm[1]], dims[perm[2]]})},
        [perm](Tensor a, Tensor y) {
          assemble(transpose(view(a, {a.size(0), a.size(1), a.size(2)}, {0, 0, 0}), perm), y,
                   {0, 0, 0});
        });
    each_shape([&](std::int64_t P, std::int64_t Q, std::int64_t R) {
      const std::int64_t extent[] = {P, Q, R}, stride[] = {Q * R, R, 1};
      Data a = Data::random(Element::kBF16, {P, Q, R}, 1);
      Data y(Element::kBF16, {extent[perm[0]], extent[perm[1]], extent[perm[2]]});
      run(kernel, {a.argument(), y.argument()}, {&y});
      expect_close(
          y,
          [&](std::int64_t i) {
            std::int64_t at = 0;
            for (int d = 2; d >= 0; --d) {
              at += i % extent[perm[static_cast<std::size_t>(d)]] *
                    stride[perm[static_cast<std::size_t>(d)]];
              i /= extent[perm[static_cast<std::size_t>(d)]];
            }
            return a[at];
          },
          0);
    });
  }
}

TEST(RunShape, ReshapesMergeAndSplit) {
  const Kernel kernel =
      jit("reshape",
          {in("a", {p, q, r}), out("flat", {p * q * r}), out("back", {p, q, r}),
           out("turned", {q * r, p})},
          [](Tensor a, Tensor flat, Tensor back, Tensor turned) {
            const std::int64_t P = a.size(0), Q = a.size(1), R = a.size(2);
            const Tile x = view(a, {P, Q, R}, {0, 0, 0});
            assemble(reshape(x, {P * Q * R}), flat, {0});
            assemble(reshape(reshape(x * 2, {P * Q * R}), {P, Q, R}), back, {0, 0, 0});
            assemble(transpose(reshape(x, {P, Q * R})), turned, {0, 0});
          });
  each_shape([&](std::int64_t P, std::int64_t Q, std::int64_t R) {
    Data a = Data::random(Element::kF32, {P, Q, R}, 1);
    Data flat(Element::kF32, {P * Q * R}), back(Element::kF32, {P, Q, R}),
        turned(Element::kF32, {Q * R, P});
    run(kernel, {a.argument(), flat.argument(), back.argument(), turned.argument()},
        {&flat, &back, &turned});
    expect_close(flat, [&](std::int64_t i) { return a[i]; }, 0);
    expect_close(back, [&](std::int64_t i) { return 2 * a[i]; }, 0);
    expect_close(turned, [&](std::int64_t i) { return a[i % P * Q * R + i / P]; }, 0);
  });
}

TEST(RunShape, ReshapeThatMatchesNoDim) {
  // [6, 10] as [4, 15], transposed: neither extent divides the other.
  const Kernel kernel = jit("torn", {in("a", {6, 10}), out("y", {15, 4})}, [](Tensor a, Tensor y) {
    assemble(transpose(reshape(view(a, {6, 10}, {0, 0}) + 1, {4, 15})), y, {0, 0});
  });
  Data a = Data::random(Element::kF32, {6, 10}, 1);
  Data y(Element::kF32, {15, 4});
  run(kernel, {a.argument(), y.argument()}, {&y});
  expect_close(y, [&](std::int64_t i) { return a[i % 4 * 15 + i / 4] + 1; }, 0);
}

TEST(RunShape, ConcatAndSlice) {
  const Kernel kernel =
      jit("concat",
          {in("a", {p, q}), in("b", {p, r}), out("wide", {p, Dim::fixed("qr")}),
           out("middle", {p, 3}), out("sums", {p, 1}), out("tall", {p * 2, q})},
          [](Tensor a, Tensor b, Tensor wide, Tensor middle, Tensor sums, Tensor tall) {
            const std::int64_t P = a.size(0), Q = a.size(1), R = b.size(1);
            const Tile x = view(a, {P, Q}, {0, 0});
            const Tile both = concat({x * 2, view(b, {P, R}, {0, 0})}, 1);
            assemble(both + 1, wide, {0, 0});
            assemble(slice(both, {P, 3}, {0, Q - 1}), middle, {0, 0});
            assemble(sum(both, 1), sums, {0, 0});
            assemble(concat({x, -x}, 0), tall, {0, 0});
          });
  for (const auto& s : {Shape{1, 1, 3}, {2, 3, 4}, {3, 17, 5}, {4, 16, 32}}) {
    const std::int64_t P = s[0], Q = s[1], R = s[2];
    Data a = Data::random(Element::kF32, {P, Q}, 1), b = Data::random(Element::kF32, {P, R}, 2);
    Data wide(Element::kF32, {P, Q + R}), middle(Element::kF32, {P, 3}),
        sums(Element::kF32, {P, 1});
    Data tall(Element::kF32, {2 * P, Q});
    run(kernel,
        {a.argument(), b.argument(), wide.argument(), middle.argument(), sums.argument(),
         tall.argument()},
        {&wide, &middle, &sums, &tall});
    const auto at = [&](std::int64_t i, std::int64_t j) {
      return j < Q ? 2 * a[i * Q + j] : b[i * R + j - Q];
    };
    expect_close(wide, [&](std::int64_t i) { return at(i / (Q + R), i % (Q + R)) + 1; }, 1e-7);
    expect_close(middle, [&](std::int64_t i) { return at(i / 3, Q - 1 + i % 3); }, 0);
    expect_close(sums, [&](std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = 0; j < Q + R; ++j) sum += at(i, j);
      return sum;
    });
    expect_close(tall, [&](std::int64_t i) { return i < P * Q ? a[i] : -a[i - P * Q]; }, 0);
  }
}

TEST(RunShape, AConcatSummedInTwoLoops) {
  // The concat needs memory for the sums; each loop gets its own.
  const Dim t = Dim::dynamic("t");
  const Kernel kernel =
      jit("twice", {in("a", {1, 5}), in("x", {t, 8}), out("y", {t, 1}), out("z", {t, 1})},
          [](Tensor a, Tensor x, Tensor y, Tensor z) {
            const Tile u = view(a, {1, 5}, {0, 0});
            const Tile both = concat({u, slice(u, {1, 3}, {0, 1})}, 1);
            for (const Tensor& to : {y, z}) {
              loop(x.dim(0),
                   [&](Index i) { assemble(sum(both * view(x, {1, 8}, {i, 0}), 1), to, {i, 0}); });
            }
          });
  Data a = Data::random(Element::kF32, {1, 5}, 1), x = Data::random(Element::kF32, {6, 8}, 2);
  Data y(Element::kF32, {6, 1}), z(Element::kF32, {6, 1});
  run(kernel, {a.argument(), x.argument(), y.argument(), z.argument()}, {&y, &z});
  for (const Data* out : {&y, &z}) {
    expect_close(*out, [&](std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = 0; j < 8; ++j) sum += x[i * 8 + j] * a[j < 5 ? j : j - 4];
      return sum;
    });
  }
}

}  // namespace
}  // namespace tessera::tile::test
