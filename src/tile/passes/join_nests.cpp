#include "tile/passes/join_nests.h"

#include <algorithm>
#include <map>

namespace tessera::tile::passes {

using ir::Kind;
using ir::Op;

bool same_vars(const Op& a, const Op& b) {
  return std::equal(a.vars.begin(), a.vars.end(), b.vars.begin(), b.vars.end(),
                    [](const ir::Var& x, const ir::Var& y) {
                      return x.name == y.name && x.extent == y.extent && !x.reduces && !y.reduces;
                    });
}

void join_points(ir::Block& into, ir::Block from) {
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
  std::stable_partition(into.begin(), into.end(),
                        [](const Op& op) { return op.kind != Kind::kStore; });
}

}  // namespace tessera::tile::passes
