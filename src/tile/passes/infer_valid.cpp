#include "tile/passes/infer_valid.h"

#include <map>

#include "tile/ir/infer.h"

namespace tessera::tile::passes {

namespace {

class Inference {
 public:
  explicit Inference(const ir::Kernel& kernel) : kernel_(kernel), ranges_(kernel.symbol_ranges()) {}

  void block(ir::Block& block) {
    for (ir::Op& op : block) {
      for (ir::IndexExpr& index : op.index) index = simplify(index, ranges_);
      for (ir::Var& var : op.vars) var.extent = simplify(var.extent, ranges_);
      simplify_valid(op);
      ir::add_ranges(op.vars, ranges_);
      for (ir::Block& inner : op.blocks) this->block(inner);
      if (op.result < 0) continue;
      std::vector<const ir::Op*> operands;
      for (int operand : op.operands) operands.push_back(&values_.at(operand));
      op.type = infer(op, operands, op.memory.empty() ? nullptr : kernel_.find_memory(op.memory));
      simplify_valid(op);
      values_[op.result] = op;
    }
  }

 private:
  void simplify_valid(ir::Op& op) {
    for (ir::IndexExpr& extent : op.type.valid) extent = simplify(extent, ranges_);
  }

  const ir::Kernel& kernel_;
  ir::Ranges ranges_;
  std::map<int, ir::Op> values_;
};

}  // namespace

void infer_valid(ir::Kernel& kernel) {
  Inference(kernel).block(kernel.body);
}

}  // namespace tessera::tile::passes
