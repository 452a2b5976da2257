// The MLA KV prolog, whole and in parts, for the shapes of the model and odd ones.
#include "tests/tile/harness.h"

namespace tessera::tile::test {
namespace {

struct Sizes {
  std::int64_t b, s, hidden, rank, rope, heads, nope, v;
  std::int64_t t() const { return b * s; }
};

Tile normalised(const Tile& x, const Tile& w, std::int64_t n) {
  return x * rsqrt(sum(x * x, 1) * (1.0 / static_cast<double>(n)) + 1e-6) * w;
}

// Interleaved pairs of row [rows, d] are rotated by cos and sin [rows, d / 2].
void rotate(const Tensor& from, Index column, int rows, std::int64_t d, const Tile& c,
            const Tile& s, Index row, const Tensor& to, const Indices& at) {
  const Tile even = view(from, {rows, d / 2}, {row, column}, {.valid = {}, .step = {1, 2}});
  const Tile odd = view(from, {rows, d / 2}, {row, column + 1}, {.valid = {}, .step = {1, 2}});
  const auto place = [&](int parity) {
    Indices indices = at;
    indices.back() = axis(1) * 2 + parity;
    return indices;
  };
  const Tile pair = concat({reshape(even * c - odd * s, {rows, d / 2, 1}),
                            reshape(odd * c + even * s, {rows, d / 2, 1})},
                           2);
  (void)place;
  Indices indices = at;
  indices.back() = axis(1);
  assemble_at(reshape(pair, {rows, d}), to, indices);
}

Kernel fused() {
  const Dim b = Dim::dynamic("b"), s = Dim::dynamic("s");
  const Dim hidden = Dim::fixed("hidden"), latent = Dim::fixed("latent"), rank = Dim::fixed("rank");
  const Dim heads = Dim::fixed("heads"), nope = Dim::fixed("nope"), v = Dim::fixed("v"),
            wide = Dim::fixed("wide");
  const Dim rope = Dim::fixed("rope"), half = Dim::fixed("half");
  return jit("mla_prolog",
             {in("x", {b * s, hidden}), weight("kv_a", {latent, hidden}),
              in("norm", {rank}, Element::kF32), weight("kv_b", {wide, rank}),
              in("cos", {b * s, half}, Element::kF32), in("sin", {b * s, half}, Element::kF32),
              out("k_nope", {b, heads, s, nope}), out("value", {b, heads, s, v}),
              out("k_pe", {b, 1, s, rope})},
             [](Tensor x, Tensor kv_a, Tensor norm, Tensor kv_b, Tensor cos, Tensor sin,
                Tensor k_nope, Tensor value, Tensor k_pe) {
               const std::int64_t hidden = x.size(1), rank = norm.size(0), rope = k_pe.size(3);
               const std::int64_t heads = k_nope.size(1), nope = k_nope.size(3), v = value.size(3);
               const Index s = k_nope.dim(2);
               const Tile w = view(norm, {rank}, {0});
               const Tensor latent = local("latent", Element::kF32, {x.dim(0), rank + rope});
               loop_unroll(x.dim(0), {8, 4, 2}, [&](Index row, int rows) {
                 assemble(matmul(view(x, {rows, hidden}, {row, 0}), kv_a), latent, {row, 0});
                 const Tile c = view(latent, {rows, rank}, {row, 0});
                 const Tile kv = matmul(cast(normalised(c, w, rank), x.element()), kv_b);
                 const Tile split = reshape(kv, {rows, heads, nope + v});
                 const Index r = row + axis(0);
                 assemble_at(slice(split, {rows, heads, nope}, {0, 0, 0}), k_nope,
                             {r / s, axis(1), r % s, axis(2)});
                 assemble_at(slice(split, {rows, heads, v}, {0, 0, nope}), value,
                             {r / s, axis(1), r % s, axis(2)});
                 rotate(latent, rank, rows, rope, view(cos, {rows, rope / 2}, {row, 0}),
                        view(sin, {rows, rope / 2}, {row, 0}), row, k_pe,
                        {r / s, 0, r % s, axis(1)});
               });
             });
}

void check(const Kernel& kernel, Element element, const Sizes& z) {
  SCOPED_TRACE(testing::Message() << to_string(element) << " b " << z.b << " s " << z.s << " heads "
                                  << z.heads << " nope " << z.nope << " v " << z.v << " rank "
                                  << z.rank);
  const std::int64_t t = z.t(), wide = z.heads * (z.nope + z.v), latent = z.rank + z.rope;
  Data x = Data::random(element, {t, z.hidden}, 1);
  Packed kv_a(Data::random(element, {latent, z.hidden}, 2, -0.2, 0.2), pools().one);
  Data norm = Data::random(Element::kF32, {z.rank}, 3);
  Packed kv_b(Data::random(element, {wide, z.rank}, 4, -0.2, 0.2), pools().one);
  Data cos = Data::random(Element::kF32, {t, z.rope / 2}, 5);
  Data sin = Data::random(Element::kF32, {t, z.rope / 2}, 6);
  Data k_nope(element, {z.b, z.heads, z.s, z.nope});
  Data value(element, {z.b, z.heads, z.s, z.v});
  Data k_pe(element, {z.b, 1, z.s, z.rope});
  run(kernel,
      {x.argument(), kv_a.argument(), norm.argument(), kv_b.argument(), cos.argument(),
       sin.argument(), k_nope.argument(), value.argument(), k_pe.argument()},
      {&k_nope, &value, &k_pe});
  std::vector<double> c(static_cast<std::size_t>(t * latent));
  std::vector<double> kv(static_cast<std::size_t>(t * wide));
  for (std::int64_t r = 0; r < t; ++r) {
    double* row = &c[static_cast<std::size_t>(r * latent)];
    for (std::int64_t j = 0; j < latent; ++j) {
      for (std::int64_t k = 0; k < z.hidden; ++k)
        row[j] += x[r * z.hidden + k] * kv_a.values[j * z.hidden + k];
    }
    double square = 0;
    for (std::int64_t j = 0; j < z.rank; ++j) square += row[j] * row[j];
    const double scale = 1 / std::sqrt(square / static_cast<double>(z.rank) + 1e-6);
    Data rounded(element, {z.rank});
    for (std::int64_t j = 0; j < z.rank; ++j) rounded.set(j, row[j] * scale * norm[j]);
    for (std::int64_t n = 0; n < wide; ++n) {
      double sum = 0;
      for (std::int64_t j = 0; j < z.rank; ++j) sum += rounded[j] * kv_b.values[n * z.rank + j];
      kv[static_cast<std::size_t>(r * wide + n)] = sum;
    }
  }
  const double tolerance = element == Element::kF32 ? 2e-5 : 2e-2;
  const auto at = [&](std::int64_t i, std::int64_t width, std::int64_t first) {
    const std::int64_t d = i % width, s = i / width % z.s, h = i / width / z.s % z.heads,
                       b = i / width / z.s / z.heads;
    return kv[static_cast<std::size_t>((b * z.s + s) * wide + h * (z.nope + z.v) + first + d)];
  };
  expect_close(k_nope, [&](std::int64_t i) { return at(i, z.nope, 0); }, tolerance);
  expect_close(value, [&](std::int64_t i) { return at(i, z.v, z.nope); }, tolerance);
  expect_close(
      k_pe,
      [&](std::int64_t i) {
        const std::int64_t d = i % z.rope, r = i / z.rope, pair = d / 2;
        const double even = c[static_cast<std::size_t>(r * latent + z.rank + 2 * pair)];
        const double odd = c[static_cast<std::size_t>(r * latent + z.rank + 2 * pair + 1)];
        const double co = cos[r * z.rope / 2 + pair], si = sin[r * z.rope / 2 + pair];
        return d % 2 == 0 ? even * co - odd * si : odd * co + even * si;
      },
      tolerance);
}

TEST(RunMlaProlog, SmallAndOdd) {
  const Kernel kernel = fused();
  for (Element element : {Element::kF32, Element::kBF16, Element::kF16}) {
    check(kernel, element, {1, 1, 64, 32, 16, 2, 32, 32});
    check(kernel, element, {2, 3, 70, 40, 12, 3, 24, 20});  // no width is a multiple of a vector
    check(kernel, element, {5, 2, 33, 17, 6, 3, 5, 7});
    check(kernel, element, {1, 17, 64, 64, 32, 4, 64, 64});
    check(kernel, element, {3, 11, 64, 64, 32, 4, 48, 16});
  }
}

TEST(RunMlaProlog, ModelShapes) {
  const Kernel kernel = fused();
  for (std::int64_t s : {1, 2, 7, 33})
    check(kernel, Element::kBF16, {1, s, 2048, 512, 64, 16, 128, 128});
}

TEST(RunMlaProlog, Stages) {
  const Kernel kernel = fused();
  const std::vector<Argument> arguments = {argument(nullptr, Element::kBF16, {2, 2048}),
                                           packed_argument(nullptr, Element::kBF16, 576, 2048),
                                           argument(nullptr, Element::kF32, {512}),
                                           packed_argument(nullptr, Element::kBF16, 4096, 512),
                                           argument(nullptr, Element::kF32, {2, 32}),
                                           argument(nullptr, Element::kF32, {2, 32}),
                                           argument(nullptr, Element::kBF16, {1, 16, 2, 128}),
                                           argument(nullptr, Element::kBF16, {1, 16, 2, 128}),
                                           argument(nullptr, Element::kBF16, {1, 1, 2, 64})};
  for (const char* stage : {"trace", "scratch"}) {
    const std::string text = kernel.stage(stage, arguments);
    if (std::getenv("SHOW") != nullptr) puts(text.c_str());
    EXPECT_NE(text.find("kernel mla_prolog"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::tile::test
