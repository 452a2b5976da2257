#include "ops/mla_prolog/prolog_tiles.h"

#include <algorithm>

namespace tessera::ops::prolog {

using namespace tile;  // NOLINT(google-build-using-namespace): kernels read as the language

Tile normalised(const Tile& c, const Tensor& norm, const Tensor& eps) {
  const std::int64_t rank = norm.size(0);
  const Tile mean = sum(c * c, 1) * (1.0 / static_cast<double>(rank));
  return c * rsqrt(mean + view(eps, {1}, {0})) * view(norm, {rank}, {0});
}

Tile rotated(const Tensor& x, const Index& row, std::int64_t first, int rows, const Tensor& cos,
             const Tensor& sin, RopeLayout layout) {
  const std::int64_t half = cos.size(1);
  const bool interleaved = layout == RopeLayout::kInterleaved;
  const Access every{.valid = {}, .step = {1, interleaved ? 2 : 1}};
  const Tile c = view(cos, {rows, half}, {row, 0});
  const Tile s = view(sin, {rows, half}, {row, 0});
  const Tile a = view(x, {rows, half}, {row, first}, every);
  const Tile b = view(x, {rows, half}, {row, first + (interleaved ? 1 : half)}, every);
  if (!interleaved) return concat({a * c - b * s, b * c + a * s}, 1);
  const Tile pairs =
      concat({reshape(a * c - b * s, {rows, half, 1}), reshape(b * c + a * s, {rows, half, 1})}, 2);
  return reshape(pairs, {rows, 2 * half});
}

void assemble_heads(const Tile& kv, const Index& row, const Tensor& block, const Tensor& place,
                    const Tensor& k_nope, const Tensor& value) {
  const std::int64_t rows = kv.size(0), heads = k_nope.size(1);
  const std::int64_t nope = k_nope.size(3), v = value.size(3);
  const Tile by_head = reshape(kv, {rows, heads, nope + v});
  const Index t = row + axis(0);
  const Indices to = {block[t], axis(1), place[t], axis(2)};
  assemble_at(slice(by_head, {rows, heads, nope}, {0, 0, 0}), k_nope, to);
  assemble_at(slice(by_head, {rows, heads, v}, {0, 0, nope}), value, to);
}

PackedMatrix::PackedMatrix(const PrologMatrix& matrix, Executor& executor) : given_(matrix.packed) {
  if (given_ == nullptr) own_ = PackedLinear(matrix.plain, matrix.layout, executor);
}

Argument PackedMatrix::argument() const {
  const PackedLinear& l = linear();
  const Element element = l.layout() == PanelLayout::kBF16  ? Element::kBF16
                          : l.layout() == PanelLayout::kF16 ? Element::kF16
                                                            : Element::kF32;
  return packed_argument(l.data(), element, l.n(), l.k());
}

Argument argument_of(const HeadTensor& to, const MlaPrologCall& call, std::int64_t heads,
                     std::int64_t dim) {
  return argument(to.data, element_of(to.dtype), {call.blocks, heads, call.block_tokens, dim});
}

Tokens::Tokens(const MlaPrologCall& call, Executor& executor)
    : n_(call.n_tokens()), half_(call.cos.columns), cos_(call.cos.data), sin_(call.sin.data) {
  const bool copy = !call.positions.empty() || call.cos.stride != half_ || call.sin.stride != half_;
  const std::int64_t n_values = copy ? 2 * n_ * half_ : 0;
  auto* floats = executor.worker(0).scratch<float>(Worker::kPrologSlot, n_values + 3 * n_);
  if (copy) {
    for (std::int64_t t = 0; t < n_; ++t) {
      std::ranges::copy(call.cos.row(call.position(t)), floats + t * half_);
      std::ranges::copy(call.sin.row(call.position(t)), floats + (n_ + t) * half_);
    }
    cos_ = floats;
    sin_ = floats + n_ * half_;
  }
  auto* slot = reinterpret_cast<std::int32_t*>(floats + n_values);
  std::int32_t* block = slot + n_;
  std::int32_t* place = block + n_;
  for (std::int64_t t = 0; t < n_; ++t) {
    slot[t] = static_cast<std::int32_t>(call.slot(t));
    block[t] = static_cast<std::int32_t>(call.slot(t) / call.block_tokens);
    place[t] = static_cast<std::int32_t>(call.slot(t) % call.block_tokens);
  }
  slot_ = slot;
  block_ = block;
  place_ = place;
}

Tokens::Tokens(const RecordedProlog& call)
    : n_(*call.hidden.count.now),
      half_(call.half),
      cos_(call.cos),
      sin_(call.sin),
      slot_(call.slot),
      block_(call.block),
      place_(call.place) {}

Argument Tokens::rows(const float* data) const {
  return argument(data, Element::kF32, {n_, half_});
}

Argument Tokens::indices(const std::int32_t* data) const {
  return argument(data, Element::kI32, {n_});
}

graph::LaunchInfo launch_info(const RecordedProlog& call, graph::Use input) {
  return {.name = call.name,
          .op = "mla_prolog",
          .spread = graph::Spread::kShared,
          .reads = {input},
          .writes = {{call.cache}}};
}

void OneKernel::run(const MlaPrologCall& call, Executor& executor) const {
  assert_valid(w_, call);
  if (call.n_tokens() == 0) return;
  const Tokens tokens(call, executor);
  const RegionScope region(executor.profile());
  const Argument hidden =
      tile::argument(call.hidden.data, Element::kF32, {call.n_tokens(), w_.dims.hidden});
  kernel(call.layout)(executor, arguments(hidden, tokens, call));
}

bool OneKernel::record(graph::Recorder& recorder, const RecordedProlog& call) const {
  record_kernel(recorder, launch_info(call, call.hidden.use()), kernel(call.outputs.layout),
                [this, call](int worker) {
                  const Rows rows = call.hidden.at(worker);
                  const Argument hidden =
                      tile::argument(rows.data, Element::kF32, {rows.rows, rows.columns});
                  return arguments(hidden, Tokens(call), call.outputs);
                });
  return true;
}

std::string unsupported_inputs(const MlaPrologWeights& w, const MlaPrologCall& call, bool heads) {
  if (is_quantised(w.kv_a.layout) || (heads && is_quantised(w.kv_b.layout))) {
    return "needs weights that are not quantised";
  }
  if (w.kv_a_bias != nullptr) return "adds no bias";
  if (call.hidden.stride != w.dims.hidden) return "needs hidden states without gaps";
  return {};
}

std::string unsupported_heads(const MlaPrologWeights& w, const MlaPrologCall& call) {
  const MlaDims& d = w.dims;
  if (call.latent.wanted()) return "does not write rows of a latent cache";
  if (!call.k_nope.wanted() || !call.k_pe.wanted()) return "needs all three outputs to be wanted";
  if (!call.k_nope.is_dense(d.heads, call.block_tokens, d.nope) ||
      !call.value.is_dense(d.heads, call.block_tokens, d.v) ||
      !call.k_pe.is_dense(1, call.block_tokens, d.rope)) {
    return "needs outputs without gaps";
  }
  return {};
}

}  // namespace tessera::ops::prolog
