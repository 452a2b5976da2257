// Bounds of index expressions, and what they simplify.
#include <algorithm>

#include "tile/ir/index_expr.h"

namespace tessera::tile::ir {

namespace {

using Bound = std::optional<std::int64_t>;

// Bounds that would overflow are unknown.
Bound add(Bound a, Bound b) {
  std::int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

Bound multiply(Bound a, std::int64_t factor) {
  std::int64_t product = 0;
  if (!a || __builtin_mul_overflow(*a, factor, &product)) return std::nullopt;
  return product;
}

Range range_of_atom(const Atom& atom, const Ranges& ranges) {
  if (atom.kind == Atom::Kind::kName) {
    const auto found = ranges.find(atom.name);
    return found == ranges.end() ? Range{} : found->second;
  }
  if (atom.kind == Atom::Kind::kElement)
    return {0, std::nullopt};  // checked before the kernel runs
  const Range a = range_of(atom.args[0], ranges);
  const Range b = range_of(atom.args[1], ranges);
  switch (atom.kind) {
    case Atom::Kind::kProduct:
      if (a.low && *a.low >= 0 && b.low && *b.low >= 0) {
        return {multiply(a.low, *b.low), b.high ? multiply(a.high, *b.high) : std::nullopt};
      }
      return {};
    case Atom::Kind::kDiv: {
      const bool by_positive = b.low && *b.low > 0 && a.low && *a.low >= 0;
      if (!by_positive) return {0, std::nullopt};
      return {b.high ? Bound(*a.low / *b.high) : Bound(0),
              a.high ? Bound(*a.high / *b.low) : std::nullopt};
    }
    case Atom::Kind::kMod: {
      Bound high = b.high ? Bound(std::max<std::int64_t>(*b.high - 1, 0)) : std::nullopt;
      if (a.high && (!high || *a.high < *high)) high = a.high;
      return {0, high};
    }
    case Atom::Kind::kMin: {
      Range result;
      if (a.low && b.low) result.low = std::min(*a.low, *b.low);
      if (a.high && b.high) {
        result.high = std::min(*a.high, *b.high);
      } else {
        result.high = a.high ? a.high : b.high;
      }
      return result;
    }
    case Atom::Kind::kMax: {
      Range result;
      if (a.high && b.high) result.high = std::max(*a.high, *b.high);
      if (a.low && b.low) {
        result.low = std::max(*a.low, *b.low);
      } else {
        result.low = a.low ? a.low : b.low;
      }
      return result;
    }
    default:
      return {};
  }
}

IndexExpr term_of(const IndexExpr::Term& term, std::int64_t coefficient) {
  const Atom& atom = *term.atom;
  IndexExpr single;
  switch (atom.kind) {
    case Atom::Kind::kName:
      single = IndexExpr::name(atom.name);
      break;
    case Atom::Kind::kElement:
      single = IndexExpr::element(atom.name, atom.args);
      break;
    default:
      single = IndexExpr::of(atom.kind, atom.args[0], atom.args[1]);
  }
  return single * coefficient;
}

// e as divisor * quotient + rest, where the rest is known to lie in [0, divisor).
bool split(const IndexExpr& e, std::int64_t divisor, const Ranges& ranges, IndexExpr& quotient,
           IndexExpr& rest) {
  quotient = e.constant() / divisor;
  rest = e.constant() % divisor;
  for (const IndexExpr::Term& term : e.terms()) {
    if (term.coefficient % divisor == 0) {
      quotient = quotient + term_of(term, term.coefficient / divisor);
    } else {
      rest = rest + term_of(term, term.coefficient);
    }
  }
  const Range range = range_of(rest, ranges);
  return range.low && range.high && *range.low >= 0 && *range.high < divisor;
}

IndexExpr simplify_atom(const Atom& atom, const Ranges& ranges) {
  std::vector<IndexExpr> args;
  for (const IndexExpr& arg : atom.args) args.push_back(simplify(arg, ranges));
  if (atom.kind == Atom::Kind::kName) return IndexExpr::name(atom.name);
  if (atom.kind == Atom::Kind::kElement) return IndexExpr::element(atom.name, args);
  const IndexExpr& a = args[0];
  const IndexExpr& b = args[1];
  if (atom.kind == Atom::Kind::kDiv || atom.kind == Atom::Kind::kMod) {
    const bool is_div = atom.kind == Atom::Kind::kDiv;
    IndexExpr quotient;
    IndexExpr rest;
    if (b.is_constant() && b.constant() > 0 && split(a, b.constant(), ranges, quotient, rest)) {
      return is_div ? quotient : rest;
    }
    const Range of_a = range_of(a, ranges);
    if (of_a.low && *of_a.low >= 0 && always_less_equal(a + 1, b, ranges)) {
      return is_div ? IndexExpr(0) : a;
    }
    // mod(e, d) where e is part of the way: drop multiples of d.
    if (!is_div && b.is_constant() && b.constant() > 0 &&
        range_of(rest, ranges).low.value_or(-1) >= 0) {
      return IndexExpr::mod(rest, b);
    }
  }
  if (atom.kind == Atom::Kind::kMin) {
    if (always_less_equal(a, b, ranges)) return a;
    if (always_less_equal(b, a, ranges)) return b;
  }
  if (atom.kind == Atom::Kind::kMax) {
    if (always_less_equal(a, b, ranges)) return b;
    if (always_less_equal(b, a, ranges)) return a;
  }
  return IndexExpr::of(atom.kind, a, b);
}

}  // namespace

Range range_of(const IndexExpr& expression, const Ranges& ranges) {
  Range sum{expression.constant(), expression.constant()};
  for (const IndexExpr::Term& term : expression.terms()) {
    const Range atom = range_of_atom(*term.atom, ranges);
    const bool positive = term.coefficient > 0;
    sum.low = add(sum.low, multiply(positive ? atom.low : atom.high, term.coefficient));
    sum.high = add(sum.high, multiply(positive ? atom.high : atom.low, term.coefficient));
  }
  return sum;
}

bool always_less_equal(const IndexExpr& a, const IndexExpr& b, const Ranges& ranges) {
  const Range difference = range_of(b - a, ranges);
  return difference.low && *difference.low >= 0;
}

IndexExpr simplify(const IndexExpr& expression, const Ranges& ranges) {
  IndexExpr result(expression.constant());
  for (const IndexExpr::Term& term : expression.terms()) {
    result = result + simplify_atom(*term.atom, ranges) * term.coefficient;
  }
  // A name that can have only one value is that value.
  std::map<std::string, IndexExpr> fixed;
  result.visit_atoms([&](const Atom& atom) {
    if (atom.kind != Atom::Kind::kName) return;
    const auto found = ranges.find(atom.name);
    if (found == ranges.end()) return;
    const Range& range = found->second;
    if (range.low && range.high && *range.low == *range.high) fixed[atom.name] = *range.low;
  });
  return fixed.empty() ? result : simplify(result.substitute(fixed), ranges);
}

}  // namespace tessera::tile::ir
