#include "tile/passes/overlap.h"

#include <map>
#include <numeric>

namespace tessera::tile::passes {

using ir::IndexExpr;

bool apart(const Access& a, const Access& b, const ir::Ranges& ranges) {
  // The variables of b are others than those of a, also where they have the same names.
  ir::Ranges all = ranges;
  ir::add_ranges(a.vars, all);
  std::map<std::string, IndexExpr> renamed;
  std::vector<ir::Var> others;
  for (const ir::Var& var : b.vars) {
    others.push_back({var.name + "@b", var.extent.substitute(renamed), var.reduces});
    renamed[var.name] = IndexExpr::name(others.back().name);
  }
  ir::add_ranges(others, all);
  for (std::size_t d = 0; d < a.index.size(); ++d) {
    const IndexExpr distance = b.index[d].substitute(renamed) - a.index[d];
    const ir::Range range = range_of(distance, all);
    if ((range.low && *range.low > 0) || (range.high && *range.high < 0)) return true;
    // Every second element from an even one on, and from an odd one on.
    std::int64_t step = 0;
    for (const IndexExpr::Term& term : distance.terms()) step = std::gcd(step, term.coefficient);
    if (step > 1 && distance.constant() % step != 0) return true;
  }
  return false;
}

}  // namespace tessera::tile::passes
