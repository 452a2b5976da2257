#include "tile/passes/pairs.h"

#include <algorithm>

#include "tile/passes/join_nests.h"

namespace tessera::tile::passes {

namespace {

using ir::IndexExpr;
using ir::Kind;
using ir::Op;

const Op* only_store(const Op& nest) {
  if (nest.kind != Kind::kNest || nest.vars.empty()) return nullptr;
  int stores = 0;
  for (const Op& op : nest.blocks[0]) stores += op.kind == Kind::kStore ? 1 : 0;
  const Op& last = nest.blocks[0].back();
  return stores == 1 && last.kind == Kind::kStore ? &last : nullptr;
}

bool loads(const Op& nest, const std::string& memory) {
  return std::any_of(nest.blocks[0].begin(), nest.blocks[0].end(),
                     [&](const Op& op) { return op.kind == Kind::kLoad && op.memory == memory; });
}

// The stores go to neighbours, and along the last variable to every second element.
bool interleave(const Op& first, const Op& second) {
  const Op* a = only_store(first);
  const Op* b = only_store(second);
  if (a == nullptr || b == nullptr || a->memory != b->memory || a->index.empty()) return false;
  if (!same_vars(first, second)) return false;
  // What the one stores, the other may have loaded before or load afterwards.
  if (loads(first, a->memory) || loads(second, a->memory)) return false;
  for (std::size_t d = 0; d + 1 < a->index.size(); ++d) {
    if (!(a->index[d] == b->index[d])) return false;
  }
  return b->index.back() - a->index.back() == IndexExpr(1) &&
         a->index.back().coefficient(first.vars.back().name) == 2;
}

void block(ir::Block& statements) {
  for (std::size_t i = 0; i < statements.size(); ++i) {
    Op& op = statements[i];
    if (op.kind == Kind::kLoop || op.kind == Kind::kParallel) block(op.blocks[0]);
    if (i + 1 == statements.size() || !interleave(op, statements[i + 1])) continue;
    join_points(op.blocks[0], std::move(statements[i + 1].blocks[0]));
    statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

}  // namespace

void pairs(ir::Kernel& kernel) {
  block(kernel.body);
}

}  // namespace tessera::tile::passes
