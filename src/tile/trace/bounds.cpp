#include "tile/trace/bounds.h"

#include <optional>

namespace tessera::tile {

using ir::Atom;
using ir::IndexExpr;

namespace {

IndexExpr single(const Atom& atom) {
  return atom.kind == Atom::Kind::kName ? IndexExpr::name(atom.name)
                                        : IndexExpr::of(atom.kind, atom.args[0], atom.args[1]);
}

}  // namespace

IndexExpr LoopBounds::extreme(const IndexExpr& value, bool largest) const {
  IndexExpr result = value;
  for (auto loop = open.rbegin(); loop != open.rend(); ++loop) {
    const std::int64_t coefficient = result.coefficient(loop->name);
    const bool at_end = (coefficient > 0) == largest;
    const IndexExpr end = at_end ? loop->extent - loop->step : IndexExpr(0);
    result = result + (end - IndexExpr::name(loop->name)) * coefficient;
  }
  return result;
}

bool LoopBounds::never_negative(const IndexExpr& value, int depth) const {
  constexpr int kMaxDepth = 12;  // of choices between the sides of minima and maxima
  const IndexExpr smallest = extreme(value, false);
  ir::Ranges ranges = symbols;
  for (const LoopVar& loop : open) {
    const ir::Range extent = range_of(loop.extent, ranges);
    ranges[loop.name] = {0, extent.high ? std::optional(*extent.high - loop.step) : std::nullopt};
  }
  const ir::Range range = range_of(smallest, ranges);
  if (range.low && *range.low >= 0) return true;
  if (depth == kMaxDepth) return false;
  // Minima that are subtracted and maxima that are added may be replaced by either side; of the
  // others both sides must do; a quotient or a remainder that is subtracted is replaced by its
  // largest value. Before the loop variables are replaced by their ends, so that t - 8*i and min(8,
  // t - 8*i) cancel.
  for (const IndexExpr::Term& term : value.terms()) {
    const Atom& atom = *term.atom;
    const IndexExpr rest =
        value - (atom.kind == Atom::Kind::kElement ? IndexExpr::element(atom.name, atom.args)
                                                   : single(atom)) *
                    term.coefficient;
    const bool subtracted = term.coefficient < 0;
    if ((atom.kind == Atom::Kind::kMin && subtracted) ||
        (atom.kind == Atom::Kind::kMax && !subtracted)) {
      if (never_negative(rest + atom.args[0] * term.coefficient, depth + 1) ||
          never_negative(rest + atom.args[1] * term.coefficient, depth + 1)) {
        return true;
      }
      break;
    }
    if (atom.kind == Atom::Kind::kMin || atom.kind == Atom::Kind::kMax) {
      if (never_negative(rest + atom.args[0] * term.coefficient, depth + 1) &&
          never_negative(rest + atom.args[1] * term.coefficient, depth + 1)) {
        return true;
      }
      break;
    }
    if (atom.kind == Atom::Kind::kDiv && subtracted && atom.args[1].is_constant() &&
        term.coefficient % atom.args[1].constant() == 0) {
      // d * (a / d) <= a.
      const IndexExpr most = atom.args[0] * (term.coefficient / atom.args[1].constant());
      if (never_negative(rest + most, depth + 1)) return true;
    }
    if (atom.kind == Atom::Kind::kMod && subtracted) {
      if (never_negative(rest + (atom.args[1] - 1) * term.coefficient, depth + 1)) return true;
    }
    if (atom.kind == Atom::Kind::kDiv && subtracted) {
      // a / b <= x - 1 where a <= x * b - 1.
      const IndexExpr largest = extreme(atom.args[0], true);
      for (const IndexExpr::Term& part : largest.terms()) {
        if (part.atom->kind != Atom::Kind::kProduct || part.coefficient != 1) continue;
        for (int side = 0; side < 2; ++side) {
          const auto other = static_cast<std::size_t>(1 - side);
          if (part.atom->args[static_cast<std::size_t>(side)] != atom.args[1]) continue;
          const IndexExpr product = single(*part.atom);
          if (!never_negative(product - 1 - largest, depth + 1)) continue;
          if (never_negative(rest + (part.atom->args[other] - 1) * term.coefficient, depth + 1))
            return true;
        }
      }
    }
  }
  return !(smallest == value) && never_negative(smallest, depth + 1);
}

}  // namespace tessera::tile
