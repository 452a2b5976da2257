#include "tile/passes/substitute.h"

#include <set>

#include <fmt/format.h>

namespace tessera::tile::passes {

void rewrite_indices(ir::Op& op,
                     const std::function<ir::IndexExpr(const ir::IndexExpr&)>& rewrite) {
  for (ir::IndexExpr& index : op.index) index = rewrite(index);
  for (ir::IndexExpr& extent : op.type.valid) extent = rewrite(extent);
  for (ir::Var& var : op.vars) var.extent = rewrite(var.extent);
  for (ir::Block& block : op.blocks) rewrite_indices(block, rewrite);
}

void rewrite_indices(ir::Block& block,
                     const std::function<ir::IndexExpr(const ir::IndexExpr&)>& rewrite) {
  for (ir::Op& op : block) rewrite_indices(op, rewrite);
}

void substitute(ir::Op& op, const std::map<std::string, ir::IndexExpr>& values) {
  rewrite_indices(op, [&](const ir::IndexExpr& index) { return index.substitute(values); });
}

void substitute(ir::Block& block, const std::map<std::string, ir::IndexExpr>& values) {
  for (ir::Op& op : block) substitute(op, values);
}

void for_each_op(const ir::Block& block, const std::function<void(const ir::Op&)>& visit) {
  for (const ir::Op& op : block) {
    visit(op);
    for (const ir::Block& inner : op.blocks) for_each_op(inner, visit);
  }
}

void for_each_op(ir::Block& block, const std::function<void(ir::Op&)>& visit) {
  for (ir::Op& op : block) {
    visit(op);
    for (ir::Block& inner : op.blocks) for_each_op(inner, visit);
  }
}

std::string fresh_name(const ir::Kernel& kernel, const std::string& stem) {
  std::set<std::string> taken;
  for (const ir::Symbol& symbol : kernel.symbols) taken.insert(symbol.name);
  for (const ir::Memory& memory : kernel.memories) taken.insert(memory.name);
  for_each_op(kernel.body, [&](const ir::Op& op) {
    for (const ir::Var& var : op.vars) taken.insert(var.name);
  });
  std::string name = stem;
  for (int n = 1; taken.contains(name); ++n) name = fmt::format("{}_{}", stem, n);
  return name;
}

}  // namespace tessera::tile::passes
