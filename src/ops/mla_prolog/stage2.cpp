#include "ops/mla_prolog/stage2.h"

#include "ops/kernel_lists.h"

namespace tessera::ops::prolog {

namespace {

using namespace tile;  // NOLINT(google-build-using-namespace): the kernel reads as the language

Kernel stage2_kernel(RopeLayout layout) {
  const Dim t = Dim::dynamic("t"), blocks = Dim::dynamic("blocks"), tokens = Dim::dynamic("tokens");
  const Dim latent = Dim::fixed("latent"), rank = Dim::fixed("rank"), wide = Dim::fixed("wide");
  const Dim heads = Dim::fixed("heads"), nope = Dim::fixed("nope"), v = Dim::fixed("v");
  const Dim rope = Dim::fixed("rope"), half = Dim::fixed("half");
  return jit(
      layout == RopeLayout::kInterleaved ? "mla_prolog_stage2" : "mla_prolog_stage2_half_split",
      {in("latent", {t, latent}, Element::kF32), weight("kv_b", {wide, rank}),
       in("cos", {t, half}, Element::kF32), in("sin", {t, half}, Element::kF32),
       indices("block", {t}), indices("place", {t}), out("k_nope", {blocks, heads, tokens, nope}),
       out("value", {blocks, heads, tokens, v}), out("k_pe", {blocks, 1, tokens, rope})},
      [layout](Tensor latent, Tensor kv_b, Tensor cos, Tensor sin, Tensor block, Tensor place,
               Tensor k_nope, Tensor value, Tensor k_pe) {
        const std::int64_t rank = kv_b.size(1);
        loop_unroll(latent.dim(0), {8, 4, 3, 2}, [&](const Index& row, int rows) {
          const Tile c = cast(view(latent, {rows, rank}, {row, 0}), kv_b.element());
          assemble_heads(matmul(c, kv_b), row, block, place, k_nope, value);
          const Tile key = rotated(latent, row, rank, rows, cos, sin, layout);
          const Index token = row + axis(0);
          assemble_at(key, k_pe, {block[token], 0, place[token], axis(1)});
        });
      });
}

const Kernel& kernel(RopeLayout layout) {
  static const KernelByLayout kernels(stage2_kernel);
  return kernels[layout];
}

}  // namespace

Stage2::Stage2(const MlaPrologWeights& weights, Executor& executor)
    : dims_(weights.dims), kv_b_(weights.kv_b, executor) {}

void Stage2::run(const Rows& projected, const MlaPrologCall& call, Executor& executor) const {
  const Tokens tokens(call, executor);
  const RegionScope region(executor.profile());
  kernel(call.layout)(executor, arguments(projected, tokens, call));
}

void Stage2::record(graph::Recorder& recorder, const RecordedRows& projected,
                    const RecordedProlog& call) const {
  record_kernel(recorder, launch_info(call, projected.use()), kernel(call.outputs.layout),
                [this, projected, call](int worker) {
                  return arguments(projected.at(worker), Tokens(call), call.outputs);
                });
}

std::vector<Argument> Stage2::arguments(const Rows& projected, const Tokens& tokens,
                                        const MlaPrologCall& outputs) const {
  return {argument(projected.data, Element::kF32, {projected.rows, dims_.latent_row()}),
          kv_b_.argument(),
          tokens.cos(),
          tokens.sin(),
          tokens.block(),
          tokens.place(),
          argument_of(outputs.k_nope, outputs, dims_.heads, dims_.nope),
          argument_of(outputs.value, outputs, dims_.heads, dims_.v),
          argument_of(outputs.k_pe, outputs, 1, dims_.rope)};
}

}  // namespace tessera::ops::prolog

namespace tessera::ops {

std::vector<TileKernel> mla_prolog_hybrid_kernels() {
  return {{"mla_prolog", "hybrid", prolog::stage2_kernel(RopeLayout::kInterleaved)},
          {"mla_prolog", "hybrid", prolog::stage2_kernel(RopeLayout::kHalfSplit)}};
}

}  // namespace tessera::ops
