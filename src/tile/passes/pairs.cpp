#include "tile/passes/pairs.h"

#include <map>

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

bool same_vars(const Op& a, const Op& b) {
  if (a.vars.size() != b.vars.size()) return false;
  for (std::size_t i = 0; i < a.vars.size(); ++i) {
    const bool same = a.vars[i].name == b.vars[i].name && a.vars[i].extent == b.vars[i].extent;
    if (!same || a.vars[i].reduces || b.vars[i].reduces) return false;
  }
  return true;
}

// The stores go to neighbours, and along the last variable to every second element.
bool interleave(const Op& first, const Op& second) {
  const Op* a = only_store(first);
  const Op* b = only_store(second);
  if (a == nullptr || b == nullptr || a->memory != b->memory || a->index.empty()) return false;
  if (!same_vars(first, second)) return false;
  for (std::size_t d = 0; d + 1 < a->index.size(); ++d) {
    if (!(a->index[d] == b->index[d])) return false;
  }
  return b->index.back() - a->index.back() == IndexExpr(1) &&
         a->index.back().coefficient(first.vars.back().name) == 2;
}

// Appends the second body to the first; what both load is loaded once.
void join(ir::Block& into, ir::Block from) {
  std::map<std::string, int> loaded;
  for (const Op& op : into) {
    if (op.kind == Kind::kLoad) loaded[op.memory + ir::shape_text(op.index)] = op.result;
  }
  std::map<int, int> replaced;
  for (Op& op : from) {
    if (op.kind == Kind::kLoad) {
      const auto known = loaded.find(op.memory + ir::shape_text(op.index));
      if (known != loaded.end()) {
        replaced[op.result] = known->second;
        continue;
      }
    }
    for (int& operand : op.operands) {
      const auto other = replaced.find(operand);
      if (other != replaced.end()) operand = other->second;
    }
    into.push_back(std::move(op));
  }
}

void block(ir::Block& statements) {
  for (std::size_t i = 0; i < statements.size(); ++i) {
    Op& op = statements[i];
    if (op.kind == Kind::kLoop || op.kind == Kind::kParallel) block(op.blocks[0]);
    if (i + 1 == statements.size() || !interleave(op, statements[i + 1])) continue;
    join(op.blocks[0], std::move(statements[i + 1].blocks[0]));
    statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

}  // namespace

void pairs(ir::Kernel& kernel) {
  block(kernel.body);
}

}  // namespace tessera::tile::passes
