// Whether two accesses of point form touch the same elements.
#pragma once

#include <vector>

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

// An index of a tensor and the variables that it runs over.
struct Access {
  const std::vector<ir::IndexExpr>& index;
  const std::vector<ir::Var>& vars;
};

// True where it can be shown that no element of a is one of b, whatever values the variables of
// either take. Names that neither runs over (loops around both, symbols) have one value.
bool apart(const Access& a, const Access& b, const ir::Ranges& ranges);

}  // namespace tessera::tile::passes
