// What absorbed attention needs of the KV prolog, as one tile kernel: the normalised latent and the
// rotated key go straight into the rows of the paged cache.
#include "ops/kernel_lists.h"
#include "ops/mla_prolog/prolog_tiles.h"

namespace tessera::ops {

namespace {

using namespace tile;  // NOLINT(google-build-using-namespace): the kernel reads as the language

Kernel latent_kernel(RopeLayout layout) {
  const Dim t = Dim::dynamic("t"), slots = Dim::dynamic("slots");
  const Dim hidden = Dim::fixed("hidden"), latent = Dim::fixed("latent"), rank = Dim::fixed("rank");
  const Dim half = Dim::fixed("half");
  return jit(
      layout == RopeLayout::kInterleaved ? "mla_prolog_latent" : "mla_prolog_latent_half_split",
      {in("hidden", {t, hidden}, Element::kF32), weight("kv_a", {latent, hidden}),
       in("norm", {rank}, Element::kF32), in("eps", {1}, Element::kF32),
       in("cos", {t, half}, Element::kF32), in("sin", {t, half}, Element::kF32),
       indices("slot", {t}), out("cache", {slots, latent})},
      [layout](Tensor x, Tensor kv_a, Tensor norm, Tensor eps, Tensor cos, Tensor sin, Tensor slot,
               Tensor cache) {
        const std::int64_t hidden = x.size(1), rank = norm.size(0), row_size = cache.size(1);
        const Tensor latent = local("latent", Element::kF32, {x.dim(0), row_size});
        loop_unroll(x.dim(0), {8, 4, 3, 2}, [&](const Index& row, int rows) {
          const Tile h = cast(view(x, {rows, hidden}, {row, 0}), kv_a.element());
          assemble(matmul(h, kv_a), latent, {row, 0});

          const Tile c = prolog::normalised(view(latent, {rows, rank}, {row, 0}), norm, eps);
          const Tile key = prolog::rotated(latent, row, rank, rows, cos, sin, layout);
          assemble_at(concat({c, key}, 1), cache, {slot[row + axis(0)], axis(1)});
        });
      });
}

class Latent : public prolog::OneKernel {
 public:
  Latent(const MlaPrologWeights& w, Executor& executor) : OneKernel(w), kv_a_(w.kv_a, executor) {}

 private:
  const Kernel& kernel(RopeLayout layout) const override {
    static const prolog::KernelByLayout kernels(latent_kernel);
    return kernels[layout];
  }

  std::vector<Argument> arguments(const Argument& hidden, const prolog::Tokens& tokens,
                                  const MlaPrologCall& outputs) const override {
    const MlaDims& d = w_.dims;
    return {hidden,
            kv_a_.argument(),
            argument(w_.norm, Element::kF32, {d.kv_rank}),
            argument(&w_.eps, Element::kF32, {1}),
            tokens.cos(),
            tokens.sin(),
            tokens.slot(),
            argument(outputs.latent.data, element_of(outputs.latent.dtype),
                     {outputs.n_slots(), d.latent_row()})};
  }

  prolog::PackedMatrix kv_a_;
};

std::string unsupported(const MlaPrologWeights& w, const MlaPrologCall& call) {
  if (call.k_nope.wanted() || call.k_pe.wanted()) return "writes only rows of a latent cache";
  if (!call.latent.wanted()) return "needs a latent cache";
  return prolog::unsupported_inputs(w, call, false);
}

}  // namespace

constexpr MlaPrologImplementation kMlaPrologLatent = {
    "latent", unsupported, [](const MlaPrologWeights& weights, Executor& executor) {
      return std::unique_ptr<MlaProlog>(std::make_unique<Latent>(weights, executor));
    }};

std::vector<TileKernel> mla_prolog_latent_kernels() {
  return {{"mla_prolog", "latent", latent_kernel(RopeLayout::kInterleaved)},
          {"mla_prolog", "latent", latent_kernel(RopeLayout::kHalfSplit)}};
}

}  // namespace tessera::ops
