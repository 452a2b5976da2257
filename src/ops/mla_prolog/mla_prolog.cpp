#include "ops/mla_prolog/mla_prolog.h"

#include <cassert>

#include "ops/matmul/matmul.h"

namespace tessera::ops {

PrologMatrix::PrologMatrix(const WeightView& view)
    : layout(tile::cpu::panel_layout(view.dtype)), plain(view) {}

void multiply(const ConstRows& x, const PrologMatrix& matrix, const Rows& y, Executor& executor) {
  if (matrix.packed != nullptr) return linear(x, *matrix.packed, y, executor);
  matmul(x, matrix.plain, y, executor);
}

void assert_valid([[maybe_unused]] const MlaPrologWeights& w,
                  [[maybe_unused]] const MlaPrologCall& call) {
  [[maybe_unused]] const MlaDims& d = w.dims;
  assert(d.rope % 2 == 0);
  assert(w.kv_a.n() == d.latent_row() && w.kv_a.k() == d.hidden);
  assert(call.k_nope.wanted() == call.value.wanted());
  assert(!call.k_nope.wanted() ||
         (w.kv_b.n() == d.heads * d.head_row() && w.kv_b.k() == d.kv_rank));
  assert(call.hidden.columns == d.hidden);
  assert(call.cos.columns == d.rope / 2 && call.sin.columns == d.rope / 2);
  assert(call.cos.rows == call.sin.rows);
  assert(call.positions.empty() || std::ssize(call.positions) == call.n_tokens());
  assert(call.slots.empty() || std::ssize(call.slots) == call.n_tokens());
  for (std::int64_t t = 0; t < call.n_tokens(); ++t) {
    assert(0 <= call.position(t) && call.position(t) < call.cos.rows);
    assert(0 <= call.slot(t) && call.slot(t) < call.n_slots());
  }
}

}  // namespace tessera::ops
