#include "tile/passes/phases.h"

#include <algorithm>
#include <map>
#include <set>

#include "tile/ir/fail.h"
#include "tile/passes/fuse_rows.h"
#include "tile/passes/substitute.h"

namespace tessera::tile::passes {

namespace {

using ir::IndexExpr;
using ir::Kind;
using ir::Op;

struct Statement {
  Op op;
  std::vector<ir::Var> loops;  // outermost first
  int phase = 0;
  std::set<std::string> reads;
  std::set<std::string> writes;

  bool is_contract() const { return op.kind == Kind::kContract; }
  bool same_loops(const Statement& other) const {
    return std::equal(loops.begin(), loops.end(), other.loops.begin(), other.loops.end(),
                      [](const ir::Var& a, const ir::Var& b) { return a.name == b.name; });
  }
};

void collect(ir::Block& block, std::vector<ir::Var>& loops, std::vector<Statement>& statements) {
  for (Op& op : block) {
    if (op.kind == Kind::kLoop || op.kind == Kind::kParallel) {
      loops.push_back(op.vars[0]);
      collect(op.blocks[0], loops, statements);
      loops.pop_back();
      continue;
    }
    if (op.kind != Kind::kNest && op.kind != Kind::kContract) {
      fail_at(code::kBadIr, op.location, "phases: {} is not a statement", to_string(op.kind));
    }
    Statement statement;
    statement.loops = loops;
    for_each_op({op}, [&](const Op& inner) {
      if (inner.kind == Kind::kLoad) statement.reads.insert(inner.memory);
      if (inner.kind == Kind::kStore || inner.kind == Kind::kAccumulateSum ||
          inner.kind == Kind::kAccumulateMax) {
        statement.writes.insert(inner.memory);
      }
    });
    statement.op = std::move(op);
    statements.push_back(std::move(statement));
  }
}

void number(const ir::Kernel& kernel, std::vector<Statement>& statements) {
  for (std::size_t i = 0; i < statements.size(); ++i) {
    Statement& reader = statements[i];
    for (std::size_t j = 0; j < i; ++j) {
      const Statement& writer = statements[j];
      for (const std::string& name : writer.writes) {
        if (!reader.reads.contains(name)) continue;
        const bool local = kernel.find_memory(name)->kind == ir::MemoryKind::kLocal;
        const bool waits =
            local || writer.is_contract() || reader.is_contract() || !reader.same_loops(writer);
        reader.phase = std::max(reader.phase, writer.phase + (waits ? 1 : 0));
      }
    }
  }
}

// A statement that only feeds a later phase may as well run there, beside its reader.
void delay(const ir::Kernel& kernel, std::vector<Statement>& statements) {
  for (std::size_t i = statements.size(); i-- > 0;) {
    Statement& writer = statements[i];
    if (writer.is_contract()) continue;
    int latest = -1;
    bool all_temps = !writer.writes.empty();
    for (const std::string& name : writer.writes) {
      all_temps = all_temps && kernel.find_memory(name)->kind == ir::MemoryKind::kTemp;
      for (const Statement& reader : statements) {
        if (!reader.reads.contains(name)) continue;
        all_temps = all_temps && !reader.is_contract() && reader.same_loops(writer);
        latest = latest < 0 ? reader.phase : std::min(latest, reader.phase);
      }
    }
    if (all_temps && latest > writer.phase) writer.phase = latest;
  }
}

// Temporary values whose readers are in another task than their writer get memory for every
// iteration.
void widen_temps(ir::Kernel& kernel, std::vector<Statement>& statements) {
  for (ir::Memory& memory : kernel.memories) {
    if (memory.kind != ir::MemoryKind::kTemp) continue;
    const Statement* first = nullptr;
    bool crosses = false;
    for (const Statement& s : statements) {
      if (s.writes.contains(memory.name) || s.reads.contains(memory.name)) {
        if (first == nullptr) first = &s;
        crosses = crosses || s.is_contract() || s.phase != first->phase || !s.same_loops(*first);
      }
    }
    if (!crosses) continue;
    memory.kind = ir::MemoryKind::kScratch;
    std::vector<ir::Var> loops;  // the writer's
    for (const Statement& s : statements) {
      if (s.writes.contains(memory.name)) loops = s.loops;
    }
    std::vector<IndexExpr> dims;
    std::vector<IndexExpr> index;
    for (const ir::Var& loop : loops) {
      loop.extent.visit_atoms([&](const ir::Atom& atom) {
        const bool outer =
            atom.kind == ir::Atom::Kind::kName &&
            std::any_of(loops.begin(), loops.end(), [&](auto& l) { return l.name == atom.name; });
        if (outer || atom.kind == ir::Atom::Kind::kElement) {
          fail_at(code::kCannotLower, first->op.location,
                  "phases: a value crosses a barrier inside a loop whose count {} varies",
                  loop.extent.to_string());
        }
      });
      dims.push_back(loop.extent);
      index.push_back(IndexExpr::name(loop.name));
    }
    dims.insert(dims.end(), memory.dims.begin(), memory.dims.end());
    memory.dims = dims;
    for (Statement& s : statements) {
      ir::Block block{std::move(s.op)};
      for_each_op(block, [&](Op& op) {
        if (op.memory == memory.name) op.index.insert(op.index.begin(), index.begin(), index.end());
      });
      s.op = std::move(block[0]);
    }
  }
}

Op in_tasks(std::vector<ir::Var> loops, ir::Block body) {
  Op tasks;
  tasks.kind = Kind::kTasks;
  tasks.vars = std::move(loops);
  tasks.location = body.front().location;
  tasks.blocks.push_back(std::move(body));
  return tasks;
}

}  // namespace

void phases(ir::Kernel& kernel) {
  std::vector<Statement> statements;
  std::vector<ir::Var> loops;
  collect(kernel.body, loops, statements);
  number(kernel, statements);
  delay(kernel, statements);
  widen_temps(kernel, statements);
  int n_phases = 0;
  for (const Statement& s : statements) n_phases = std::max(n_phases, s.phase + 1);
  kernel.body.clear();
  for (int p = 0; p < n_phases; ++p) {
    Op phase;
    phase.kind = Kind::kPhase;
    phase.blocks.resize(1);
    std::vector<bool> done(statements.size(), false);
    for (std::size_t i = 0; i < statements.size(); ++i) {
      Statement& first = statements[i];
      if (first.phase != p || done[i]) continue;
      ir::Block body;
      for (std::size_t j = i; j < statements.size(); ++j) {
        Statement& other = statements[j];
        const bool together = j == i || (!first.is_contract() && !other.is_contract() &&
                                         other.phase == p && other.same_loops(first));
        if (!together || done[j]) continue;
        done[j] = true;
        body.push_back(std::move(other.op));
      }
      if (!first.is_contract()) fuse_rows(kernel, body);
      phase.blocks[0].push_back(in_tasks(first.loops, std::move(body)));
    }
    if (!phase.blocks[0].empty()) kernel.body.push_back(std::move(phase));
  }
}

}  // namespace tessera::tile::passes
