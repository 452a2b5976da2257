// The KV prolog as one tile kernel: projection, norm, expansion, split and rotation of a block of
// tokens without an intermediate result in memory but the latent.
#include "ops/kernel_lists.h"
#include "ops/mla_prolog/prolog_tiles.h"

namespace tessera::ops {

namespace {

using namespace tile;  // NOLINT(google-build-using-namespace): the kernel reads as the language
using prolog::argument_of;

Kernel fused_kernel(RopeLayout layout) {
  const Dim t = Dim::dynamic("t"), blocks = Dim::dynamic("blocks"), tokens = Dim::dynamic("tokens");
  const Dim hidden = Dim::fixed("hidden"), latent = Dim::fixed("latent"), rank = Dim::fixed("rank");
  const Dim heads = Dim::fixed("heads"), nope = Dim::fixed("nope"), v = Dim::fixed("v");
  const Dim wide = Dim::fixed("wide"), rope = Dim::fixed("rope"), half = Dim::fixed("half");
  return jit(
      layout == RopeLayout::kInterleaved ? "mla_prolog_fused" : "mla_prolog_fused_half_split",
      {in("hidden", {t, hidden}, Element::kF32), weight("kv_a", {latent, hidden}),
       in("norm", {rank}, Element::kF32), in("eps", {1}, Element::kF32),
       weight("kv_b", {wide, rank}), in("cos", {t, half}, Element::kF32),
       in("sin", {t, half}, Element::kF32), indices("block", {t}), indices("place", {t}),
       out("k_nope", {blocks, heads, tokens, nope}), out("value", {blocks, heads, tokens, v}),
       out("k_pe", {blocks, 1, tokens, rope})},
      [layout](Tensor x, Tensor kv_a, Tensor norm, Tensor eps, Tensor kv_b, Tensor cos, Tensor sin,
               Tensor block, Tensor place, Tensor k_nope, Tensor value, Tensor k_pe) {
        const std::int64_t hidden = x.size(1), rank = norm.size(0), rope = k_pe.size(3);
        const Tensor latent = local("latent", Element::kF32, {x.dim(0), rank + rope});
        loop_unroll(x.dim(0), {8, 4, 3, 2}, [&](const Index& row, int rows) {
          const Tile h = cast(view(x, {rows, hidden}, {row, 0}), kv_a.element());
          assemble(matmul(h, kv_a), latent, {row, 0});

          const Tile c = prolog::normalised(view(latent, {rows, rank}, {row, 0}), norm, eps);
          const Tile kv = matmul(cast(c, kv_b.element()), kv_b);
          prolog::assemble_heads(kv, row, block, place, k_nope, value);

          const Tile key = prolog::rotated(latent, row, rank, rows, cos, sin, layout);
          const Index token = row + axis(0);
          assemble_at(key, k_pe, {block[token], 0, place[token], axis(1)});
        });
      });
}

class Fused : public prolog::OneKernel {
 public:
  Fused(const MlaPrologWeights& w, Executor& executor)
      : OneKernel(w), kv_a_(w.kv_a, executor), kv_b_(w.kv_b, executor) {}

 private:
  const Kernel& kernel(RopeLayout layout) const override {
    static const prolog::KernelByLayout kernels(fused_kernel);
    return kernels[layout];
  }

  std::vector<Argument> arguments(const Argument& hidden, const prolog::Tokens& tokens,
                                  const MlaPrologCall& outputs) const override {
    const MlaDims& d = w_.dims;
    return {hidden,
            kv_a_.argument(),
            argument(w_.norm, Element::kF32, {d.kv_rank}),
            argument(&w_.eps, Element::kF32, {1}),
            kv_b_.argument(),
            tokens.cos(),
            tokens.sin(),
            tokens.block(),
            tokens.place(),
            argument_of(outputs.k_nope, outputs, d.heads, d.nope),
            argument_of(outputs.value, outputs, d.heads, d.v),
            argument_of(outputs.k_pe, outputs, 1, d.rope)};
  }

  prolog::PackedMatrix kv_a_;
  prolog::PackedMatrix kv_b_;
};

std::string unsupported(const MlaPrologWeights& w, const MlaPrologCall& call) {
  if (auto why = prolog::unsupported_inputs(w, call, true); !why.empty()) return why;
  return prolog::unsupported_heads(w, call);
}

}  // namespace

constexpr MlaPrologImplementation kMlaPrologFused = {
    "fused", unsupported, [](const MlaPrologWeights& weights, Executor& executor) {
      return std::unique_ptr<MlaProlog>(std::make_unique<Fused>(weights, executor));
    }};

std::vector<TileKernel> mla_prolog_fused_kernels() {
  return {{"mla_prolog", "fused", fused_kernel(RopeLayout::kInterleaved)},
          {"mla_prolog", "fused", fused_kernel(RopeLayout::kHalfSplit)}};
}

}  // namespace tessera::ops
