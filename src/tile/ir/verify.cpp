#include "tile/ir/verify.h"

#include <map>
#include <set>
#include <string>

#include "tile/ir/fail.h"
#include "tile/ir/infer.h"
#include "tile/ir/print.h"

namespace tessera::tile::ir {

namespace {

class Verifier {
 public:
  Verifier(const Kernel& kernel, std::string_view stage) : kernel_(kernel), stage_(stage) {}

  void run() {
    for (const Symbol& symbol : kernel_.symbols) {
      define_name(symbol.name);
      check(symbol.low >= 0 && (symbol.high < 0 || symbol.high >= symbol.low),
            "symbol {}: {}..{} is no range", symbol.name, symbol.low, symbol.high);
    }
    std::set<std::string> tensors;
    for (const Memory& memory : kernel_.memories) {
      check(tensors.insert(memory.name).second, "tensor {} is declared twice", memory.name);
      for (const IndexExpr& dim : memory.dims) check_index(dim);
      check_strides(memory);
      if (memory.placed) check_index(memory.offset);
      check(memory.element != Element::kBool, "tensor {} of comparisons", memory.name);
      check(memory.element != Element::kI4 || memory.panels, "tensor {} of int4 is not packed",
            memory.name);
      if (memory.panels) {
        check(memory.dims.size() == 2 && is_weight_element(memory.element) &&
                  memory.kind == MemoryKind::kIn,
              "packed weight {} must be a floating-point, int8 or int4 argument of rank 2",
              memory.name);
        for (const IndexExpr& dim : memory.dims) {
          check(dim.is_constant() && dim.constant() > 0, "packed weight {} has a dynamic dim",
                memory.name);
        }
      }
    }
    for (const Limit& limit : kernel_.limits) {
      const Memory* memory = kernel_.find_memory(limit.memory);
      check(
          memory != nullptr && memory->element == Element::kI32 && memory->kind == MemoryKind::kIn,
          "limit on {}: no int32 argument of that name", limit.memory);
      check_index(limit.limit);
    }
    block(kernel_.body, nullptr);
  }

 private:
  template <typename... Args>
  void check(bool holds, fmt::format_string<Args...> sentence, Args&&... args) const {
    if (holds) return;
    const std::string text = fmt::format(sentence, std::forward<Args>(args)...);
    if (op_ == nullptr) fail_at(code::kBadIr, {}, "{}: {}", stage_, text);
    fail_at(code::kBadIr, op_->location, "{}: {}: {}", stage_, print(*op_), text);
  }

  void define_name(const std::string& name) {
    check(names_.insert(name).second, "the name {} is defined twice", name);
  }

  void check_index(const IndexExpr& index, std::size_t axes = 0) const {
    index.visit_atoms([&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kName) {
        bool known = names_.contains(atom.name);
        for (std::size_t d = 0; d < axes; ++d) known = known || atom.name == axis_name(d);
        check(known, "unknown name {} in {}", atom.name, index.to_string());
      } else if (atom.kind == Atom::Kind::kElement) {
        const Memory* memory = kernel_.find_memory(atom.name);
        check(memory != nullptr && memory->element == Element::kI32, "{} is no int32 tensor",
              atom.name);
        check(memory->kind == MemoryKind::kIn, "{} is not an input", atom.name);
        check(memory->dims.size() == atom.args.size(), "{} has {} dimensions", atom.name,
              memory->dims.size());
      }
    });
  }

  void check_strides(const Memory& memory) const {
    if (memory.strides.empty()) return;
    for (const IndexExpr& stride : memory.strides) check_index(stride);
    check(is_argument(memory.kind) && !memory.panels, "{} {} has strides", to_string(memory.kind),
          memory.name);
    check(memory.strides.size() == memory.dims.size(), "{} has {} dimensions and {} strides",
          memory.name, memory.dims.size(), memory.strides.size());
    check(memory.strides.back() == IndexExpr(1), "the last dimension of {} has stride {}",
          memory.name, memory.strides.back().to_string());
  }

  void block(const Block& block, const Op* parent) {
    std::vector<int> defined;
    for (const Op& op : block) {
      op_ = &op;
      check_place(op, parent);
      check_parts(op, parent);
      for (const Var& var : op.vars) check_index(var.extent);
      for (const Var& var : op.vars) define_name(var.name);
      for (const Block& inner : op.blocks) this->block(inner, &op);
      op_ = &op;
      if (op.kind == Kind::kContract) --sinks_depth_;
      for (const Var& var : op.vars) names_.erase(var.name);
      if (op.result >= 0) {
        check(values_.emplace(op.result, &op).second, "%{} is defined twice", op.result);
        defined.push_back(op.result);
      }
    }
    for (int value : defined) values_.erase(value);
    op_ = parent;
  }

  // Which operations may stand where.
  void check_place(const Op& op, const Op* parent) const {
    const bool in_points = parent != nullptr && (parent->kind == Kind::kNest);
    const bool in_operands = parent != nullptr && parent->kind == Kind::kContract;
    const Kind kind = op.kind;
    const bool is_point = is_pointwise(kind) || kind == Kind::kLoad || kind == Kind::kStore ||
                          kind == Kind::kAccumulateSum || kind == Kind::kAccumulateMax ||
                          kind == Kind::kAcc;
    if (in_points) {
      check(is_point, "not inside nest");
    } else if (in_operands) {
      check(kind == Kind::kLoad || kind == Kind::kNest, "not inside contract");
    } else {
      check(!is_point || is_pointwise(kind), "only inside nest");
      check(kind != Kind::kPhase || parent == nullptr, "a phase inside {}",
            parent == nullptr ? "" : to_string(parent->kind));
      check(kind != Kind::kTasks || (parent != nullptr && parent->kind == Kind::kPhase),
            "tasks outside a phase");
      check(parent == nullptr || parent->kind != Kind::kPhase || kind == Kind::kTasks,
            "in a phase outside tasks");
    }
  }

  void check_parts(const Op& op, const Op* parent) {
    const KindInfo& kind = info(op.kind);
    std::vector<const Op*> operands;
    for (int operand : op.operands) {
      const auto found = values_.find(operand);
      check(found != values_.end(), "%{} is not defined here", operand);
      operands.push_back(found->second);
    }
    const Memory* memory = kind.memory ? kernel_.find_memory(op.memory) : nullptr;
    check(!kind.memory || memory != nullptr, "no tensor {}", op.memory);
    const bool scatters = op.kind == Kind::kScatter;
    for (const IndexExpr& index : op.index) {
      check_index(index, scatters ? operands[0]->type.shape.size() : 0);
    }
    if (kind.memory && kind.index) {
      check(op.index.size() == memory->dims.size(), "{} has {} dimensions", op.memory,
            memory->dims.size());
    }
    for (const IndexExpr& valid : op.type.valid) check_index(valid);
    switch (op.kind) {
      case Kind::kStore:
      case Kind::kAssemble:
      case Kind::kScatter:
        check(memory->kind != MemoryKind::kIn, "{} is an input", op.memory);
        check(operands[0]->type.element != Element::kBool, "a comparison cannot be stored");
        return;
      case Kind::kAccumulateSum:
      case Kind::kAccumulateMax: {
        bool reduces = false;
        for (const Var& var : parent->vars) reduces = reduces || var.reduces;
        check(reduces, "no reducing variable");
        return;
      }
      case Kind::kLoad:
        check(op.type.shape.empty() && op.type.element == memory->element,
              "the type is not that of {}", op.memory);
        return;
      case Kind::kAcc:
        check(op.index.size() == 2 && sinks_depth_ > 0,
              "only in a sink of a contract, with row and column");
        return;
      case Kind::kUnroll:
        check_factors(op);
        return;
      case Kind::kContract:
        check_contract(op);
        return;
      default:
        break;
    }
    if (op.result < 0) return;
    const bool in_nest = parent != nullptr && parent->kind == Kind::kNest;
    check(op.kind != Kind::kWeight || memory->panels, "{} is not packed", op.memory);
    const Type type = infer(op, operands, memory);
    check(type == op.type, "the type must be {}", print(type));
    check(!in_nest || op.type.shape.empty(), "a tile inside nest");
  }

  void check_factors(const Op& op) const {
    bool descends = !op.ints.empty() && op.ints.back() == 1;
    for (std::size_t i = 1; i < op.ints.size(); ++i)
      descends = descends && op.ints[i] < op.ints[i - 1];
    check(descends, "factors must descend to 1");
  }

  void check_contract(const Op& op) {
    check(op.vars.size() == 3 && !op.vars[0].reduces && !op.vars[1].reduces && op.vars[2].reduces,
          "takes (m, n; k)");
    const Block& loads = op.blocks[0];
    check(loads.size() == 2 && loads[0].kind == Kind::kLoad && loads[1].kind == Kind::kLoad,
          "the first block must be two loads");
    check(!op.blocks[1].empty(), "nothing takes the sums");
    ++sinks_depth_;
    for (const Op& sink : op.blocks[1]) {
      check(sink.kind == Kind::kNest, "the second block must be nests");
    }
  }

  const Kernel& kernel_;
  const std::string_view stage_;
  const Op* op_ = nullptr;
  int sinks_depth_ = 0;
  std::set<std::string> names_;
  std::map<int, const Op*> values_;
};

}  // namespace

void verify(const Kernel& kernel, std::string_view stage) {
  Verifier(kernel, stage).run();
}

}  // namespace tessera::tile::ir
