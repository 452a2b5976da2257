#include "tile/trace/written.h"

#include <algorithm>
#include <map>
#include <set>

#include "tile/ir/fail.h"
#include "tile/ir/print.h"

namespace tessera::tile {

using ir::Atom;
using ir::IndexExpr;

namespace {

std::string text(const Box& box) {
  std::string result = box.memory + "[";
  for (const Span& span : box.spans) {
    if (result.back() != '[') result += ", ";
    result += fmt::format("{} .. {}", span.low.to_string(), (span.end() - 1).to_string());
    if (span.step != 1) result += fmt::format(" step {}", span.step);
  }
  return result + "]";
}

// The loop variables whose iterations take different values of expression, which itself covers
// `width` neighbouring values in each iteration.
void distinct(const IndexExpr& expression, IndexExpr width, const std::vector<LoopVar>& loops,
              const ir::Ranges& symbols, std::set<std::string>& found) {
  std::vector<std::pair<std::int64_t, const LoopVar*>> order;
  for (const LoopVar& loop : loops) {
    if (expression.uses_inside_atom(loop.name)) return;
    const std::int64_t coefficient = expression.coefficient(loop.name);
    if (coefficient != 0) order.emplace_back(std::abs(coefficient), &loop);
  }
  std::sort(order.begin(), order.end(),
            [](auto& a, auto& b) { return a.first * a.second->step < b.first * b.second->step; });
  for (const auto& [coefficient, loop] : order) {
    if (!always_less_equal(width, coefficient * loop->step, symbols)) return;
    found.insert(loop->name);
    width = width + (loop->extent - loop->step) * coefficient;
  }
}

// Variables used inside an element of an index tensor: the caller promises distinct elements.
void promised(const IndexExpr& expression, const std::vector<LoopVar>& loops,
              std::set<std::string>& found) {
  expression.visit_atoms([&](const Atom& atom) {
    if (atom.kind != Atom::Kind::kElement) return;
    for (const LoopVar& loop : loops) {
      for (const IndexExpr& arg : atom.args) {
        if (arg.uses(loop.name)) found.insert(loop.name);
      }
    }
  });
}

bool inside(const Span& inner, const Span& outer, const LoopBounds& loops) {
  if (outer.step != inner.step) return false;
  if (outer.step != 1 && !(outer.low == inner.low)) return false;
  return loops.less_equal(outer.low, inner.low) && loops.less_equal(inner.end(), outer.end());
}

bool covers(const Box& outer, const Box& inner, const LoopBounds& loops) {
  for (std::size_t d = 0; d < inner.spans.size(); ++d) {
    Span span = inner.spans[d];
    if (span.step != outer.spans[d].step) span = {span.low, span.end() - span.low, 1};
    if (!inside(span, outer.spans[d], loops)) return false;
  }
  return true;
}

// Two boxes that differ in one dim, where one begins at the other's end, are one; two that
// interleave with a step of 2 as well.
void join_neighbours(std::vector<Box>& boxes) {
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; !again && i < boxes.size(); ++i) {
      for (std::size_t j = 0; !again && j < boxes.size(); ++j) {
        if (i == j || boxes[i].memory != boxes[j].memory) continue;
        if (boxes[i].branches != boxes[j].branches) continue;
        int differing = 0;
        std::size_t at = 0;
        for (std::size_t d = 0; d < boxes[i].spans.size(); ++d) {
          const Span& a = boxes[i].spans[d];
          const Span& b = boxes[j].spans[d];
          if (a.low == b.low && a.count == b.count && a.step == b.step) continue;
          ++differing;
          at = d;
        }
        if (differing != 1) continue;
        Span& a = boxes[i].spans[at];
        const Span& b = boxes[j].spans[at];
        if (a.step == 1 && b.step == 1 && a.end() == b.low) {
          a.count = a.count + b.count;
        } else if (a.step == 2 && b.step == 2 && a.count == b.count && b.low == a.low + 1) {
          a = {a.low, a.count * 2, 1};
        } else {
          continue;
        }
        boxes.erase(boxes.begin() + static_cast<std::ptrdiff_t>(j));
        again = true;
      }
    }
  }
}

bool same_loops(const Box& a, const Box& b) {
  return std::equal(a.loops.begin(), a.loops.end(), b.loops.begin(), b.loops.end(),
                    [](const LoopVar& x, const LoopVar& y) { return x.name == y.name; });
}

}  // namespace

bool Written::any(const std::string& memory) const {
  return std::any_of(stores_.begin(), stores_.end(),
                     [&](const Box& b) { return b.memory == memory; });
}

void Written::store(Box box, const ir::Op& op, const ir::Memory& memory) {
  box.loops = loops_.open;
  box.branches = branches_;
  std::set<std::string> found;
  for (const Span& span : box.spans) {
    distinct(span.low, (span.count - 1) * span.step + 1, box.loops, loops_.symbols, found);
    promised(span.low, box.loops, found);
  }
  for (const LoopVar& loop : box.loops) {
    if (found.contains(loop.name)) continue;
    fail_at(code::kOverlappingStores, op.location,
            "assemble {}: cannot show that the iterations of the loop over {} store different "
            "elements of {}{}",
            text(box), loop.name, memory.name, shape_text(memory.dims));
  }
  refuse_overlaps(box, op, memory);
  stores_.push_back(box);
  readable_.push_back(std::move(box));
  join_neighbours(readable_);
}

void Written::scatter(const ir::Op& op, const ir::Memory& memory,
                      const std::vector<IndexExpr>& extents) {
  std::vector<LoopVar> vars = loops_.open;
  for (std::size_t d = 0; d < extents.size(); ++d)
    vars.push_back({ir::axis_name(d), extents[d], 1});
  std::set<std::string> found;
  for (std::size_t i = 0; i < op.index.size(); ++i) {
    distinct(op.index[i], 1, vars, loops_.symbols, found);
    promised(op.index[i], vars, found);
    // A quotient in one dim and the remainder in another are together as good as the number itself.
    if (op.index[i].terms().size() != 1 || op.index[i].constant() != 0) continue;
    const IndexExpr::Term& term = op.index[i].terms()[0];
    if (term.atom->kind != Atom::Kind::kDiv || term.coefficient != 1) continue;
    for (const IndexExpr& other : op.index) {
      if (other == IndexExpr::mod(term.atom->args[0], term.atom->args[1])) {
        distinct(term.atom->args[0], 1, vars, loops_.symbols, found);
      }
    }
  }
  for (const LoopVar& var : vars) {
    if (found.contains(var.name) || var.extent == IndexExpr(1)) continue;
    fail_at(code::kOverlappingStores, op.location,
            "assemble_at {}{}: cannot show that different {} store different elements of {}{}",
            memory.name, shape_text(op.index), var.name, memory.name, shape_text(memory.dims));
  }
  for (const Box& other : stores_) {
    // The same index in another factor's body: other rows, and different rows are different
    // elements.
    if (other.memory != memory.name) continue;
    if (other.scatter == ir::shape_text(op.index) && other_factor(other)) continue;
    fail_at(code::kOverlappingStores, op.location,
            "assemble_at {}{}: {} was stored to at {}, and the two cannot be shown to be apart",
            memory.name, shape_text(op.index), memory.name, to_string(other.location));
  }
  Box box;
  box.scatter = ir::shape_text(op.index);
  box.memory = memory.name;
  box.loops = loops_.open;
  box.branches = branches_;
  box.location = op.location;
  // One box for all of it: later stores cannot be shown to lie outside.
  for (const IndexExpr& dim : memory.dims) box.spans.push_back({0, dim, 1});
  stores_.push_back(std::move(box));
}

bool Written::other_factor(const Box& other) const {
  for (std::size_t i = 0; i < std::min(branches_.size(), other.branches.size()); ++i) {
    if (branches_[i].first == other.branches[i].first &&
        branches_[i].second != other.branches[i].second)
      return true;
  }
  return false;
}

bool Written::apart(const Box& box, const Box& other) const {
  // Over all iterations of loops that are not shared, names of variables of the two stores are
  // unrelated.
  const auto whole = [&](const IndexExpr& value, const std::vector<LoopVar>& loops, bool largest) {
    LoopBounds bounds;
    bounds.symbols = loops_.symbols;
    bounds.open = loops;
    return bounds.extreme(value, largest);
  };
  LoopBounds plain;
  plain.symbols = loops_.symbols;
  // Different factors of one unrolled loop work on different ranges of its variable.
  const bool other_rows = other_factor(other);
  bool apart = false;
  for (std::size_t d = 0; !apart && d < box.spans.size(); ++d) {
    const Span& a = box.spans[d];
    const Span& b = other.spans[d];
    if (other_rows) {
      // The same place of the same variable, each as far as its own factor.
      for (const LoopVar& loop : box.loops) {
        const auto same = std::find_if(other.loops.begin(), other.loops.end(),
                                       [&](const LoopVar& o) { return o.name == loop.name; });
        if (same == other.loops.end() || same->step == loop.step) continue;
        const std::int64_t coefficient = a.low.coefficient(loop.name);
        apart = apart || (coefficient > 0 && a.low == b.low &&
                          plain.less_equal(a.end() - a.low, coefficient * loop.step) &&
                          plain.less_equal(b.end() - b.low, coefficient * same->step));
      }
    }
    apart = apart ||
            plain.less_equal(whole(a.end(), box.loops, true), whole(b.low, other.loops, false)) ||
            plain.less_equal(whole(b.end(), other.loops, true), whole(a.low, box.loops, false));
    if (a.step == b.step && a.step > 1) {
      bool multiples = true;
      for (const IndexExpr* low : {&a.low, &b.low}) {
        for (const IndexExpr::Term& term : low->terms())
          multiples = multiples && term.coefficient % a.step == 0;
      }
      apart = apart || (multiples && (a.low.constant() - b.low.constant()) % a.step != 0);
    }
  }
  return apart;
}

void Written::refuse_overlaps(const Box& box, const ir::Op& op, const ir::Memory& memory) const {
  for (const Box& other : stores_) {
    if (other.memory != box.memory || apart(box, other)) continue;
    fail_at(code::kOverlappingStores, op.location,
            "assemble {}: cannot show that it lies outside of {}, stored at {}, in {}{}", text(box),
            text(other), to_string(other.location), memory.name, shape_text(memory.dims));
  }
}

void Written::read(const Box& box, const ir::Op& op, const ir::Memory& memory) const {
  for (const Box& written : readable_) {
    // What another factor of an unrolled loop wrote is another iteration's.
    if (written.memory != box.memory || written.branches.size() > branches_.size() ||
        !std::equal(written.branches.begin(), written.branches.end(), branches_.begin())) {
      continue;
    }
    if (covers(written, box, loops_)) return;
  }
  std::string known;
  for (const Box& written : readable_) {
    if (written.memory == box.memory) known += (known.empty() ? "" : ", ") + text(written);
  }
  fail_at(code::kUnwrittenRead, op.location, "view {}: {}{} is not known to be written there{}",
          text(box), memory.name, shape_text(memory.dims),
          known.empty() ? "" : fmt::format(" (written: {})", known));
}

void Written::read_in_place(Box box, const ir::Op& op, const ir::Memory& memory) {
  box.loops = loops_.open;
  box.branches = branches_;
  for (const Box& other : stores_) {
    if (other.memory != box.memory || other_factor(other) || apart(box, other)) continue;
    fail_at(code::kInPlace, op.location,
            "view {}: the store at {} has overwritten {}{} there; view it before and keep the tile",
            text(box), to_string(other.location), memory.name, shape_text(memory.dims));
  }
  in_place_.push_back(std::move(box));
}

void Written::check_in_place() const {
  for (const Box& box : in_place_) {
    std::vector<Box> own;  // stored by the iteration that reads
    std::string known;
    for (const Box& store : stores_) {
      if (store.memory != box.memory || store.branches != box.branches || !same_loops(store, box))
        continue;
      known += (known.empty() ? "" : ", ") + text(store);
      if (store.scatter.empty()) own.push_back(store);
    }
    join_neighbours(own);
    LoopBounds bounds;
    bounds.symbols = loops_.symbols;
    bounds.open = box.loops;
    if (std::any_of(own.begin(), own.end(), [&](const Box& b) { return covers(b, box, bounds); }))
      continue;
    fail_at(code::kInPlace, box.location,
            "view {}: {} is updated in place, but the iteration that reads this is not shown to "
            "overwrite all of it{}",
            text(box), box.memory, known.empty() ? "" : fmt::format(" (it stores: {})", known));
  }
}

void Written::close_loop(const LoopVar& loop, std::size_t first, int branches) {
  std::vector<Box> joined;
  for (std::size_t i = first; i < readable_.size(); ++i) {
    Box box = readable_[i];
    bool whole = false;
    bool exact = true;
    for (Span& span : box.spans) {
      exact = exact && !span.low.uses_inside_atom(loop.name) && !span.count.uses(loop.name);
      const std::int64_t coefficient = span.low.coefficient(loop.name);
      if (coefficient == 0) continue;
      // Without gaps: an iteration covers exactly as far as the next one begins.
      const auto own = std::find_if(box.loops.begin(), box.loops.end(),
                                    [&](const LoopVar& v) { return v.name == loop.name; });
      exact = exact && !whole && own != box.loops.end() && coefficient > 0 && span.step == 1 &&
              span.count == IndexExpr(coefficient * own->step);
      span.low = span.low - IndexExpr::name(loop.name) * coefficient;
      span.count = loop.extent * coefficient;
      whole = true;
    }
    if (!exact || !whole) continue;
    std::erase_if(box.loops, [&](const LoopVar& v) { return v.name == loop.name; });
    box.branches = branches_;
    joined.push_back(std::move(box));
  }
  readable_.resize(first);
  // What only some factors wrote is not known to be written.
  std::map<std::string, int> times;
  for (const Box& box : joined) ++times[text(box)];
  std::set<std::string> kept;
  for (Box& box : joined) {
    const std::string key = text(box);
    if (times[key] >= branches && kept.insert(key).second) readable_.push_back(std::move(box));
  }
  join_neighbours(readable_);
}

}  // namespace tessera::tile
