#include "tile/passes/in_place.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tile/ir/fail.h"
#include "tile/passes/overlap.h"

namespace tessera::tile::passes {

namespace {

using ir::Kind;
using ir::Op;

// One nest, or the loads of a contract's operands.
struct Statement {
  const std::vector<ir::Var>* loops = nullptr;  // of the kernel
  std::size_t phase = 0;
  std::size_t section = 0;
  std::size_t order = 0;      // within the section; a contract's parts have the same
  std::vector<ir::Var> vars;  // its own, and those of loops that the passes put around it
  const ir::Block* points = nullptr;
};

class Schedule {
 public:
  explicit Schedule(const ir::Kernel& kernel) {
    for (std::size_t p = 0; p < kernel.body.size(); ++p) {
      const ir::Block& sections = kernel.body[p].blocks[0];
      for (std::size_t s = 0; s < sections.size(); ++s) {
        at_ = {&sections[s].vars, p, s, 0, {}, nullptr};
        block(sections[s].blocks[0]);
      }
    }
  }

  const std::vector<Statement>& statements() const { return statements_; }

 private:
  void block(const ir::Block& block) {
    for (const Op& op : block) {
      at_.vars.insert(at_.vars.end(), op.vars.begin(), op.vars.end());
      if (op.kind == Kind::kLoop) {
        this->block(op.blocks[0]);
      } else {
        add(op.blocks[0]);
        if (op.kind == Kind::kContract) sinks(op.blocks[1]);
        ++at_.order;
      }
      at_.vars.resize(at_.vars.size() - op.vars.size());
    }
  }

  void sinks(const ir::Block& nests) {
    for (const Op& nest : nests) {
      at_.vars.insert(at_.vars.end(), nest.vars.begin(), nest.vars.end());
      add(nest.blocks[0]);
      at_.vars.resize(at_.vars.size() - nest.vars.size());
    }
  }

  void add(const ir::Block& points) {
    at_.points = &points;
    statements_.push_back(at_);
  }

  Statement at_;
  std::vector<Statement> statements_;
};

bool touches(const Op& op, Kind kind, const std::string& memory) {
  return op.kind == kind && op.memory == memory;
}

// True if an iteration of the writer may overwrite what an iteration of the reader reads: only
// where the reader stands in the writer's loops.
bool same_iteration(const Statement& reader, const Statement& writer) {
  return writer.loops->size() <= reader.loops->size() &&
         std::equal(writer.loops->begin(), writer.loops->end(), reader.loops->begin(),
                    [](const ir::Var& a, const ir::Var& b) { return a.name == b.name; });
}

// Every iteration of the reader comes before the same iteration of the writer.
bool comes_before(const Statement& reader, const Statement& writer) {
  if (reader.phase != writer.phase) return reader.phase < writer.phase;
  return reader.section == writer.section && reader.order < writer.order;
}

// A later operation of the same point stores to where this one loads: to no other point's element.
bool overwrites_itself(const Op& load, const ir::Block& points) {
  return std::any_of(points.begin(), points.end(), [&](const Op& op) {
    return touches(op, Kind::kStore, load.memory) && op.index == load.index && &op > &load;
  });
}

void check(const Statement& reader, const Statement& writer, const std::string& memory,
           const ir::Ranges& ranges) {
  if (!same_iteration(reader, writer) || comes_before(reader, writer)) return;
  for (const Op& load : *reader.points) {
    if (!touches(load, Kind::kLoad, memory)) continue;
    if (&reader == &writer && overwrites_itself(load, *reader.points)) continue;
    for (const Op& store : *writer.points) {
      if (!touches(store, Kind::kStore, memory)) continue;
      if (apart({load.index, reader.vars}, {store.index, writer.vars}, ranges)) continue;
      const std::string place = to_string(store.location);
      fail_at(
          code::kCannotLower, load.location,
          "in_place: {} is read here, but its elements may be overwritten before{}{}; keep what "
          "is read in a local tensor",
          memory, place.empty() ? "" : ", at ", place);
    }
  }
}

}  // namespace

void in_place(ir::Kernel& kernel) {
  const Schedule schedule(kernel);
  ir::Ranges ranges = kernel.symbol_ranges();
  for (const Op& phase : kernel.body) {
    for (const Op& tasks : phase.blocks[0]) ir::add_ranges(tasks.vars, ranges);
  }
  for (const ir::Memory& memory : kernel.memories) {
    if (memory.kind != ir::MemoryKind::kInOut) continue;
    for (const Statement& reader : schedule.statements()) {
      for (const Statement& writer : schedule.statements()) {
        check(reader, writer, memory.name, ranges);
      }
    }
  }
}

}  // namespace tessera::tile::passes
