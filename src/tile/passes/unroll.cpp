#include "tile/passes/unroll.h"

#include <utility>

#include <fmt/format.h>

#include "tile/passes/substitute.h"

namespace tessera::tile::passes {

namespace {

using ir::IndexExpr;

class Unroller {
 public:
  explicit Unroller(const ir::Kernel& kernel) : ranges_(kernel.symbol_ranges()) {}

  void block(ir::Block& block) {
    ir::Block result;
    for (ir::Op& op : block) {
      if (op.kind == ir::Kind::kUnroll) {
        unrolled(op, result);
      } else if (op.kind == ir::Kind::kLoop || op.kind == ir::Kind::kParallel) {
        loop(std::move(op), result);
      } else {
        result.push_back(std::move(op));
      }
    }
    block = std::move(result);
  }

 private:
  void unrolled(ir::Op& op, ir::Block& result) {
    const std::string& row = op.vars[0].name;
    IndexExpr begin = 0;
    IndexExpr rest = op.vars[0].extent;
    for (std::size_t i = 0; i < op.ints.size(); ++i) {
      const std::int64_t factor = op.ints[i];
      const IndexExpr pieces = simplify(IndexExpr::div(rest, factor), ranges_);
      ir::Op loop;
      loop.kind = ir::Kind::kLoop;
      loop.location = op.location;
      const std::string name = fmt::format("{}_by{}", row, factor);
      loop.vars.push_back({name, pieces});
      loop.blocks.push_back(std::move(op.blocks[i]));
      substitute(loop.blocks[0], {{row, begin + IndexExpr::name(name) * factor}});
      this->loop(std::move(loop), result);
      begin = simplify(begin + pieces * factor, ranges_);
      rest = simplify(IndexExpr::mod(rest, factor), ranges_);
    }
  }

  void loop(ir::Op loop, ir::Block& result) {
    ir::Var& var = loop.vars[0];
    var.extent = simplify(var.extent, ranges_);
    const ir::Range count = range_of(var.extent, ranges_);
    if (count.high && *count.high <= 0) return;
    const bool once = var.extent == IndexExpr(1);
    if (once) substitute(loop.blocks[0], {{var.name, 0}});
    ir::add_ranges(loop.vars, ranges_);
    block(loop.blocks[0]);
    ranges_.erase(var.name);
    if (once) {
      for (ir::Op& op : loop.blocks[0]) result.push_back(std::move(op));
    } else {
      result.push_back(std::move(loop));
    }
  }

  ir::Ranges ranges_;
};

}  // namespace

void unroll(ir::Kernel& kernel) {
  Unroller(kernel).block(kernel.body);
}

}  // namespace tessera::tile::passes
