#include "tile/passes/epilogue.h"

#include <algorithm>
#include <set>

#include "tile/passes/substitute.h"

namespace tessera::tile::passes {

namespace {

using ir::IndexExpr;
using ir::Kind;
using ir::Op;

// Memory that a statement writes, inner statements included.
std::set<std::string> written_by(const Op& statement) {
  std::set<std::string> names;
  for_each_op({statement}, [&](const Op& op) {
    const bool writes = op.kind == Kind::kStore || op.kind == Kind::kAccumulateSum ||
                        op.kind == Kind::kAccumulateMax;
    if (writes) names.insert(op.memory);
  });
  return names;
}

bool reads(const Op& statement, const std::string& memory) {
  bool found = false;
  for_each_op({statement}, [&](const Op& op) {
    found = found || (op.kind == Kind::kLoad && op.memory == memory);
  });
  return found;
}

// True if index is a sum of the nest's own variables with positive factors.
bool is_plain(const IndexExpr& index, const Op& nest, std::set<std::string>& used) {
  if (index.constant() < 0) return false;
  for (const IndexExpr::Term& term : index.terms()) {
    const bool own = term.atom->kind == ir::Atom::Kind::kName &&
                     std::any_of(nest.vars.begin(), nest.vars.end(),
                                 [&](const ir::Var& var) { return var.name == term.atom->name; });
    if (!own || term.coefficient < 0 || !used.insert(term.atom->name).second) return false;
  }
  return true;
}

// A nest that can take the sums of temp [rows, columns] as they come.
bool can_sink(const Op& nest, const std::string& temp) {
  if (nest.kind != Kind::kNest) return false;
  std::set<std::string> used;
  int loads = 0;
  for (const Op& op : nest.blocks[0]) {
    if (op.kind == Kind::kAccumulateSum || op.kind == Kind::kAccumulateMax) return false;
    if (op.kind != Kind::kLoad || op.memory != temp) continue;
    ++loads;
    const IndexExpr& row = op.index[0];
    const bool plain_row = row.is_constant() || (row.as_name() != nullptr);
    if (!plain_row || !is_plain(row, nest, used) || !is_plain(op.index[1], nest, used))
      return false;
    // Columns of the nest are apart: each variable walks over what the smaller ones span.
    std::vector<std::pair<std::int64_t, std::int64_t>> steps;
    for (const IndexExpr::Term& term : op.index[1].terms()) {
      for (const ir::Var& var : nest.vars) {
        if (var.name != term.atom->name) continue;
        if (!var.extent.is_constant()) return false;
        steps.emplace_back(term.coefficient, var.extent.constant());
      }
    }
    std::sort(steps.begin(), steps.end());
    std::int64_t span = 1;
    for (const auto& [factor, extent] : steps) {
      if (factor < span) return false;
      span = factor * extent;
    }
    if (!steps.empty() && steps.front().first != 1) return false;
  }
  return loads == 1 && used.size() == nest.vars.size();
}

class Folding {
 public:
  explicit Folding(ir::Kernel& kernel) : kernel_(kernel) {}

  void block(ir::Block& block) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      for (ir::Block& inner : block[i].blocks) {
        if (block[i].kind == Kind::kLoop || block[i].kind == Kind::kParallel) this->block(inner);
      }
      if (block[i].kind == Kind::kContract) fold_into(block, i);
    }
  }

 private:
  void fold_into(ir::Block& block, std::size_t at) {
    const std::string temp = block[at].blocks[1][0].blocks[0].back().memory;
    const ir::Memory& memory = *kernel_.find_memory(temp);
    // A matmul to bf16 or fp16 rounds its sums: its readers see rounded numbers.
    const Element rounded = memory.element;
    std::set<std::string> later;  // written behind the matmul
    std::vector<std::size_t> sinks;
    for (std::size_t i = at + 1; i < block.size(); ++i) {
      if (reads(block[i], temp)) {
        if (!can_sink(block[i], temp)) return;
        for (const std::string& name : later) {
          if (reads(block[i], name)) return;
        }
        sinks.push_back(i);
      }
      for (const std::string& name : written_by(block[i])) later.insert(name);
    }
    if (sinks.empty()) return;
    Op& contract = block[at];
    contract.blocks[1].clear();
    for (std::size_t i : sinks) {
      for (Op& op : block[i].blocks[0]) {
        if (op.kind != Kind::kLoad || op.memory != temp) continue;
        op.kind = Kind::kAcc;
        op.memory.clear();
        op.type.element = Element::kF32;
      }
      if (rounded != Element::kF32) round_sums(block[i].blocks[0], rounded);
      contract.blocks[1].push_back(std::move(block[i]));
    }
    for (auto i = sinks.rbegin(); i != sinks.rend(); ++i) {
      block.erase(block.begin() + static_cast<std::ptrdiff_t>(*i));
    }
    std::erase_if(kernel_.memories, [&](const ir::Memory& m) { return m.name == temp; });
  }

  // Behind the acc, a cast takes its number's place.
  void round_sums(ir::Block& points, Element element) {
    int next = 0;
    for_each_op(kernel_.body, [&](const Op& op) { next = std::max(next, op.result + 1); });
    for (const Op& op : points) next = std::max(next, op.result + 1);
    const auto acc = std::find_if(points.begin(), points.end(),
                                  [](const Op& op) { return op.kind == Kind::kAcc; });
    Op cast;
    cast.kind = Kind::kCast;
    cast.type.element = element;
    cast.result = acc->result;
    cast.operands = {next};
    acc->result = next;
    points.insert(acc + 1, cast);
  }

  ir::Kernel& kernel_;
};

}  // namespace

void epilogue(ir::Kernel& kernel) {
  const ir::Option* option = kernel.find_option("fold_epilogue");
  if (option != nullptr && option->values[0] == 0) return;
  Folding(kernel).block(kernel.body);
}

}  // namespace tessera::tile::passes
