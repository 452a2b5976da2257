// What is known about the variables of the loops that are open while a kernel is traced.
#pragma once

#include <string>
#include <vector>

#include "tile/ir/index_expr.h"

namespace tessera::tile {

// A loop's variable runs from 0 to extent - step, in steps of step (1, but for unrolled loops).
struct LoopVar {
  std::string name;
  ir::IndexExpr extent;
  std::int64_t step = 1;
};

class LoopBounds {
 public:
  std::vector<LoopVar> open;  // outermost first
  ir::Ranges symbols;

  // True where value >= 0 can be shown for all iterations and all values of the symbols.
  bool never_negative(const ir::IndexExpr& value) const { return never_negative(value, 0); }
  bool less_equal(const ir::IndexExpr& a, const ir::IndexExpr& b) const {
    return never_negative(b - a);
  }
  // The largest (or smallest) value over all iterations: loop variables replaced by their ends.
  // Exact where the variables occur in the sum, not inside its atoms.
  ir::IndexExpr extreme(const ir::IndexExpr& value, bool largest) const;

 private:
  bool never_negative(const ir::IndexExpr& value, int depth) const;
};

}  // namespace tessera::tile
