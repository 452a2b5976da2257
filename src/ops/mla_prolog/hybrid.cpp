// The KV prolog in two stages: projection and norm by native operators, then one tile kernel for
// expansion, split, rotation and assembly.
#include "ops/matmul/matmul.h"
#include "ops/mla_prolog/prolog_tiles.h"
#include "ops/rms_norm/rms_norm.h"

namespace tessera::ops {

namespace {

using namespace tile;  // NOLINT(google-build-using-namespace): the kernel reads as the language
using prolog::argument_of;

Kernel stage2_kernel(RopeLayout layout) {
  const Dim t = Dim::dynamic("t"), blocks = Dim::dynamic("blocks"), tokens = Dim::dynamic("tokens");
  const Dim latent = Dim::fixed("latent"), rank = Dim::fixed("rank"), wide = Dim::fixed("wide");
  const Dim heads = Dim::fixed("heads"), nope = Dim::fixed("nope"), v = Dim::fixed("v");
  const Dim rope = Dim::fixed("rope"), half = Dim::fixed("half");
  return jit(
      "mla_prolog_stage2",
      {in("latent", {t, latent}, Element::kF32), weight("kv_b", {wide, rank}),
       in("cos", {t, half}, Element::kF32), in("sin", {t, half}, Element::kF32),
       indices("block", {t}), indices("place", {t}), out("k_nope", {blocks, heads, tokens, nope}),
       out("value", {blocks, heads, tokens, v}), out("k_pe", {blocks, 1, tokens, rope})},
      [layout](Tensor latent, Tensor kv_b, Tensor cos, Tensor sin, Tensor block, Tensor place,
               Tensor k_nope, Tensor value, Tensor k_pe) {
        const std::int64_t rank = kv_b.size(1);
        loop_unroll(latent.dim(0), {8, 4, 3, 2}, [&](const Index& row, int rows) {
          const Tile c = cast(view(latent, {rows, rank}, {row, 0}), kv_b.element());
          prolog::assemble_heads(matmul(c, kv_b), row, block, place, k_nope, value);
          const Tile key = prolog::rotated(latent, row, rank, rows, cos, sin, layout);
          const Index token = row + axis(0);
          assemble_at(key, k_pe, {block[token], 0, place[token], axis(1)});
        });
      });
}

class Hybrid : public MlaProlog {
 public:
  Hybrid(const MlaPrologWeights& w, Executor& executor)
      : w_(w), kv_b_(prolog::pack(w.kv_b, executor)) {}

  void run(const MlaPrologCall& call, Executor& executor) const override {
    assert_valid(w_, call);
    if (call.n_tokens() == 0) return;
    const MlaDims& d = w_.dims;
    const std::int64_t n = call.n_tokens();
    // [T, kv_rank + rope]; the norm overwrites the latent and leaves the key.
    const Rows projected(executor.worker(0).scratch<float>(Worker::kStageSlot, n * d.latent_row()),
                         n, d.latent_row());
    matmul(call.hidden, w_.kv_a, projected, executor);
    const Rows latent = projected.columns_from(0, d.kv_rank);
    rms_norm(latent, w_.norm, w_.eps, latent, executor);

    const prolog::Tokens tokens(call, executor);
    kernel(call.layout)(
        executor,
        {argument(projected.data, Element::kF32, {n, d.latent_row()}), argument_of(kv_b_, w_.kv_b),
         tokens.cos(), tokens.sin(), tokens.block(), tokens.place(),
         argument_of(call.k_nope, call, d.heads, d.nope),
         argument_of(call.value, call, d.heads, d.v), argument_of(call.k_pe, call, 1, d.rope)});
  }

 private:
  // One for all layers: they share its code.
  static const Kernel& kernel(RopeLayout layout) {
    static const Kernel interleaved = stage2_kernel(RopeLayout::kInterleaved);
    static const Kernel half_split = stage2_kernel(RopeLayout::kHalfSplit);
    return layout == RopeLayout::kInterleaved ? interleaved : half_split;
  }

  MlaPrologWeights w_;
  tile::cpu::PackedWeight kv_b_;
};

std::string unsupported(const MlaPrologWeights& w, const MlaPrologCall& call) {
  if (auto why = prolog::unsupported_inputs(w, call); !why.empty()) return why;
  return prolog::unsupported_heads(w, call);
}

}  // namespace

constexpr MlaPrologImplementation kMlaPrologHybrid = {
    "hybrid", unsupported, [](const MlaPrologWeights& weights, Executor& executor) {
      return std::unique_ptr<MlaProlog>(std::make_unique<Hybrid>(weights, executor));
    }};

}  // namespace tessera::ops
