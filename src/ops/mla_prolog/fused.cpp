// The KV prolog as one tile kernel: projection, norm, expansion, split and rotation of a block of
// tokens without an intermediate result in memory but the latent.
#include <algorithm>
#include <array>
#include <optional>

#include <tessera/tile.h>

#include "ops/mla_prolog/mla_prolog.h"
#include "tile/packed/pack.h"

namespace tessera::ops {

namespace {

using namespace tile;  // NOLINT(google-build-using-namespace): the kernel reads as the language

// The pairs of x [rows, n] at column `first` of row `row`, rotated by c and s [rows, n / 2].
Tile rotated(const Tensor& x, const Index& row, std::int64_t first, int rows, std::int64_t n,
             RopeLayout layout, const Tile& c, const Tile& s) {
  const bool interleaved = layout == RopeLayout::kInterleaved;
  const Access every{.valid = {}, .step = {1, interleaved ? 2 : 1}};
  const Tile a = view(x, {rows, n / 2}, {row, first}, every);
  const Tile b = view(x, {rows, n / 2}, {row, first + (interleaved ? 1 : n / 2)}, every);
  if (!interleaved) return concat({a * c - b * s, b * c + a * s}, 1);
  const Tile pairs = concat(
      {reshape(a * c - b * s, {rows, n / 2, 1}), reshape(b * c + a * s, {rows, n / 2, 1})}, 2);
  return reshape(pairs, {rows, n});
}

Kernel fused_kernel(RopeLayout layout) {
  const Dim b = Dim::dynamic("batch"), s = Dim::dynamic("seq");
  const Dim hidden = Dim::fixed("hidden"), latent = Dim::fixed("latent"), rank = Dim::fixed("rank");
  const Dim heads = Dim::fixed("heads"), nope = Dim::fixed("nope"), v = Dim::fixed("v");
  const Dim wide = Dim::fixed("wide"), rope = Dim::fixed("rope"), half = Dim::fixed("half");
  return jit("mla_prolog_fused",
             {in("hidden", {b * s, hidden}, Element::kF32), weight("kv_a", {latent, hidden}),
              in("norm", {rank}, Element::kF32), in("eps", {1}, Element::kF32),
              weight("kv_b", {wide, rank}), in("cos", {b * s, half}, Element::kF32),
              in("sin", {b * s, half}, Element::kF32), out("k_nope", {b, heads, s, nope}),
              out("value", {b, heads, s, v}), out("k_pe", {b, 1, s, rope})},
             [layout](Tensor x, Tensor kv_a, Tensor norm, Tensor eps, Tensor kv_b, Tensor cos,
                      Tensor sin, Tensor k_nope, Tensor value, Tensor k_pe) {
               const std::int64_t hidden = x.size(1), rank = norm.size(0), rope = k_pe.size(3);
               const std::int64_t heads = k_nope.size(1), nope = k_nope.size(3), v = value.size(3);
               const Index seq = k_nope.dim(2);
               const Tensor latent = local("latent", Element::kF32, {x.dim(0), rank + rope});
               loop_unroll(x.dim(0), {8, 4, 3, 2}, [&](const Index& row, int rows) {
                 const Tile h = cast(view(x, {rows, hidden}, {row, 0}), kv_a.element());
                 assemble(matmul(h, kv_a), latent, {row, 0});

                 const Tile c = view(latent, {rows, rank}, {row, 0});
                 const Tile mean = sum(c * c, 1) * (1.0 / static_cast<double>(rank));
                 const Tile normed =
                     c * rsqrt(mean + view(eps, {1}, {0})) * view(norm, {rank}, {0});

                 const Tile kv =
                     reshape(matmul(cast(normed, kv_b.element()), kv_b), {rows, heads, nope + v});
                 const Index token = row + axis(0);  // batch index * seq + index in the sequence
                 assemble_at(slice(kv, {rows, heads, nope}, {0, 0, 0}), k_nope,
                             {token / seq, axis(1), token % seq, axis(2)});
                 assemble_at(slice(kv, {rows, heads, v}, {0, 0, nope}), value,
                             {token / seq, axis(1), token % seq, axis(2)});
                 assemble_at(rotated(latent, row, rank, rows, rope, layout,
                                     view(cos, {rows, rope / 2}, {row, 0}),
                                     view(sin, {rows, rope / 2}, {row, 0})),
                             k_pe, {token / seq, 0, token % seq, axis(1)});
               });
             });
}

tile::cpu::PackedWeight packed(const WeightView& w, Executor& executor) {
  const auto layout = w.dtype == DType::kBF16  ? tile::cpu::PanelLayout::kBF16
                      : w.dtype == DType::kF16 ? tile::cpu::PanelLayout::kF16
                                               : tile::cpu::PanelLayout::kF32;
  return tile::cpu::pack({w.data, w.dtype, w.n, w.k, w.n_stride, w.k_stride}, layout,
                         executor.pool());
}

bool is_dense(const HeadTensor& t, std::int64_t heads, std::int64_t seq, std::int64_t dim) {
  return t.token_stride == dim && t.head_stride == seq * dim && t.batch_stride == heads * seq * dim;
}

class Fused : public MlaProlog {
 public:
  Fused(const MlaPrologWeights& w, Executor& executor)
      : w_(w), kv_a_(packed(w.kv_a, executor)), kv_b_(packed(w.kv_b, executor)) {}

  void run(const MlaPrologCall& call, Executor& executor) const override {
    assert_valid(w_, call);
    if (call.n_tokens() == 0) return;
    const MlaDims& d = w_.dims;
    const std::int64_t t = call.n_tokens(), half = d.rope / 2;
    const Element element = element_of(w_.kv_a.dtype);

    // The tables by token: positions choose rows of cos and sin.
    float* tables = executor.worker(0).scratch<float>(Worker::kPrologSlot, 2 * t * half);
    for (std::int64_t i = 0; i < t; ++i) {
      std::ranges::copy(call.cos.row(call.position(i)), tables + i * half);
      std::ranges::copy(call.sin.row(call.position(i)), tables + (t + i) * half);
    }
    const auto head_tensor = [&](const HeadTensor& h, std::int64_t heads, std::int64_t dim) {
      return argument(h.data, element_of(h.dtype), {call.batch, heads, call.seq, dim});
    };
    const Kernel& kernel = call.layout == RopeLayout::kInterleaved ? interleaved_ : half_split_;
    kernel(executor,
           {argument(call.hidden.data, Element::kF32, {t, d.hidden}),
            packed_argument(kv_a_.data(), element, d.latent_row(), d.hidden),
            argument(w_.norm, Element::kF32, {d.kv_rank}), argument(&w_.eps, Element::kF32, {1}),
            packed_argument(kv_b_.data(), element, d.heads * d.head_row(), d.kv_rank),
            argument(tables, Element::kF32, {t, half}),
            argument(tables + t * half, Element::kF32, {t, half}),
            head_tensor(call.k_nope, d.heads, d.nope), head_tensor(call.value, d.heads, d.v),
            head_tensor(call.k_pe, 1, d.rope)});
  }

 private:
  MlaPrologWeights w_;
  tile::cpu::PackedWeight kv_a_;
  tile::cpu::PackedWeight kv_b_;
  Kernel interleaved_ = fused_kernel(RopeLayout::kInterleaved);
  Kernel half_split_ = fused_kernel(RopeLayout::kHalfSplit);
};

std::string unsupported(const MlaPrologWeights& w, const MlaPrologCall& call) {
  const MlaDims& d = w.dims;
  if (w.kv_a_bias != nullptr) return "adds no bias";
  if (w.kv_a.dtype != w.kv_b.dtype) return "needs both weights in one type";
  if (call.latent.wanted()) return "does not write rows of a latent cache";
  if (!call.k_nope.wanted() || !call.k_pe.wanted()) return "needs all three outputs to be wanted";
  if (call.hidden.stride != d.hidden) return "needs hidden states without gaps";
  if (!is_dense(call.k_nope, d.heads, call.seq, d.nope) ||
      !is_dense(call.value, d.heads, call.seq, d.v) || !is_dense(call.k_pe, 1, call.seq, d.rope)) {
    return "needs outputs without gaps";
  }
  if (call.k_nope.dtype != call.value.dtype) return "needs k_nope and value in one type";
  return {};
}

}  // namespace

constexpr MlaPrologImplementation kMlaPrologFused = {
    "fused", unsupported, [](const MlaPrologWeights& weights, Executor& executor) {
      return std::unique_ptr<MlaProlog>(std::make_unique<Fused>(weights, executor));
    }};

}  // namespace tessera::ops
