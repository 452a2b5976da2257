#include "tile/ir/index_expr.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tessera::tile::ir {

namespace {

// Numbers that no kernel has wrap around instead of being undefined.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

std::string joined(const std::vector<IndexExpr>& parts) {
  std::string text;
  for (const IndexExpr& part : parts) {
    if (!text.empty()) text += ", ";
    text += part.to_string();
  }
  return text;
}

std::string print_atom(const Atom& atom) {
  switch (atom.kind) {
    case Atom::Kind::kName:
      return atom.name;
    case Atom::Kind::kElement:
      return fmt::format("{}[{}]", atom.name, joined(atom.args));
    case Atom::Kind::kProduct:
      return fmt::format("mul({})", joined(atom.args));
    case Atom::Kind::kDiv:
      return fmt::format("div({})", joined(atom.args));
    case Atom::Kind::kMod:
      return fmt::format("mod({})", joined(atom.args));
    case Atom::Kind::kMin:
      return fmt::format("min({})", joined(atom.args));
    case Atom::Kind::kMax:
      return fmt::format("max({})", joined(atom.args));
  }
  return "?";
}

}  // namespace

void IndexExpr::add(const AtomPtr& atom, std::int64_t coefficient) {
  const auto at =
      std::lower_bound(terms_.begin(), terms_.end(), atom->text,
                       [](const Term& t, const std::string& s) { return t.atom->text < s; });
  if (at != terms_.end() && at->atom->text == atom->text) {
    at->coefficient = plus(at->coefficient, coefficient);
    if (at->coefficient == 0) terms_.erase(at);
  } else if (coefficient != 0) {
    terms_.insert(at, {atom, coefficient});
  }
}

IndexExpr IndexExpr::name(const std::string& name) {
  auto atom = std::make_shared<Atom>();
  atom->name = name;
  atom->text = name;
  IndexExpr result;
  result.add(atom, 1);
  return result;
}

IndexExpr IndexExpr::element(const std::string& tensor, std::vector<IndexExpr> index) {
  auto atom = std::make_shared<Atom>();
  atom->kind = Atom::Kind::kElement;
  atom->name = tensor;
  atom->args = std::move(index);
  atom->text = print_atom(*atom);
  IndexExpr result;
  result.add(atom, 1);
  return result;
}

IndexExpr IndexExpr::atom(Atom::Kind kind, const IndexExpr& a, const IndexExpr& b) {
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->args = {a, b};
  const bool symmetric =
      kind == Atom::Kind::kProduct || kind == Atom::Kind::kMin || kind == Atom::Kind::kMax;
  if (symmetric && b.to_string() < a.to_string()) std::swap(atom->args[0], atom->args[1]);
  atom->text = print_atom(*atom);
  IndexExpr result;
  result.add(atom, 1);
  return result;
}

const std::string* IndexExpr::as_name() const {
  const bool single = constant_ == 0 && terms_.size() == 1 && terms_[0].coefficient == 1 &&
                      terms_[0].atom->kind == Atom::Kind::kName;
  return single ? &terms_[0].atom->name : nullptr;
}

std::int64_t IndexExpr::coefficient(const std::string& name) const {
  for (const Term& term : terms_) {
    if (term.atom->kind == Atom::Kind::kName && term.atom->name == name) return term.coefficient;
  }
  return 0;
}

void IndexExpr::visit_atoms(const std::function<void(const Atom&)>& visit) const {
  for (const Term& term : terms_) {
    visit(*term.atom);
    for (const IndexExpr& arg : term.atom->args) arg.visit_atoms(visit);
  }
}

bool IndexExpr::uses_inside_atom(const std::string& name) const {
  for (const Term& term : terms_) {
    for (const IndexExpr& arg : term.atom->args) {
      if (arg.uses(name)) return true;
    }
  }
  return false;
}

bool IndexExpr::uses(const std::string& name) const {
  return coefficient(name) != 0 || uses_inside_atom(name);
}

IndexExpr IndexExpr::substitute(const std::map<std::string, IndexExpr>& values) const {
  IndexExpr result(constant_);
  for (const Term& term : terms_) {
    const Atom& atom = *term.atom;
    if (atom.kind == Atom::Kind::kName) {
      const auto found = values.find(atom.name);
      if (found == values.end()) {
        result.add(term.atom, term.coefficient);
      } else {
        result = result + found->second.scaled(term.coefficient);
      }
      continue;
    }
    std::vector<IndexExpr> args;
    for (const IndexExpr& arg : atom.args) args.push_back(arg.substitute(values));
    const IndexExpr replaced = atom.kind == Atom::Kind::kElement ? element(atom.name, args)
                                                                 : of(atom.kind, args[0], args[1]);
    result = result + replaced.scaled(term.coefficient);
  }
  return result;
}

IndexExpr IndexExpr::rename_tensors(const std::map<std::string, std::string>& names) const {
  IndexExpr result(constant_);
  for (const Term& term : terms_) {
    const Atom& atom = *term.atom;
    if (atom.kind == Atom::Kind::kName) {
      result.add(term.atom, term.coefficient);
      continue;
    }
    std::vector<IndexExpr> args;
    for (const IndexExpr& arg : atom.args) args.push_back(arg.rename_tensors(names));
    const auto found = names.find(atom.name);
    const IndexExpr replaced = atom.kind == Atom::Kind::kElement
                                   ? element(found == names.end() ? atom.name : found->second, args)
                                   : of(atom.kind, args[0], args[1]);
    result = result + replaced.scaled(term.coefficient);
  }
  return result;
}

std::string IndexExpr::to_string() const {
  std::string text;
  for (const Term& term : terms_) {
    const std::int64_t factor = term.coefficient;
    const std::uint64_t size =
        factor < 0 ? 0 - static_cast<std::uint64_t>(factor) : static_cast<std::uint64_t>(factor);
    if (text.empty()) {
      if (factor < 0) text += "-";
    } else {
      text += factor < 0 ? " - " : " + ";
    }
    if (size != 1) text += std::to_string(size) + "*";
    text += term.atom->text;
  }
  if (text.empty()) return std::to_string(constant_);
  if (constant_ > 0) text += " + " + std::to_string(constant_);
  if (constant_ < 0) text += " - " + std::to_string(0 - static_cast<std::uint64_t>(constant_));
  return text;
}

bool IndexExpr::operator==(const IndexExpr& other) const {
  return constant_ == other.constant_ && terms_.size() == other.terms_.size() &&
         std::equal(terms_.begin(), terms_.end(), other.terms_.begin(),
                    [](const Term& a, const Term& b) {
                      return a.coefficient == b.coefficient && a.atom->text == b.atom->text;
                    });
}

IndexExpr IndexExpr::scaled(std::int64_t factor) const {
  IndexExpr result;
  if (factor == 0) return result;
  result = *this;
  result.constant_ = times(result.constant_, factor);
  for (Term& term : result.terms_) term.coefficient = times(term.coefficient, factor);
  return result;
}

IndexExpr IndexExpr::operator+(const IndexExpr& other) const {
  IndexExpr result = *this;
  result.constant_ = plus(result.constant_, other.constant_);
  for (const Term& term : other.terms_) result.add(term.atom, term.coefficient);
  return result;
}

IndexExpr IndexExpr::operator-(const IndexExpr& other) const {
  return *this + other.scaled(-1);
}

IndexExpr IndexExpr::operator*(const IndexExpr& other) const {
  if (other.is_constant()) return scaled(other.constant_);
  if (is_constant()) return other.scaled(constant_);
  // Distribute, so that (i0*8 + r) * s and i0*8*s + r*s are the same text.
  IndexExpr result(times(constant_, other.constant_));
  for (const Term& a : terms_) {
    IndexExpr single;
    single.add(a.atom, 1);
    result = result + single.scaled(times(a.coefficient, other.constant_));
    for (const Term& b : other.terms_) {
      IndexExpr factor;
      factor.add(b.atom, 1);
      result =
          result +
          atom(Atom::Kind::kProduct, single, factor).scaled(times(a.coefficient, b.coefficient));
    }
  }
  for (const Term& b : other.terms_) {
    IndexExpr factor;
    factor.add(b.atom, 1);
    result = result + factor.scaled(times(b.coefficient, constant_));
  }
  return result;
}

IndexExpr IndexExpr::div(const IndexExpr& a, const IndexExpr& b) {
  if (b.is_constant()) {
    if (b.constant() == 1) return a;
    if (a.is_constant() && b.constant() > 0 && a.constant() >= 0)
      return a.constant() / b.constant();
  }
  if (a.is_zero()) return a;
  return atom(Atom::Kind::kDiv, a, b);
}

IndexExpr IndexExpr::mod(const IndexExpr& a, const IndexExpr& b) {
  if (b.is_constant()) {
    if (b.constant() == 1) return 0;
    if (a.is_constant() && b.constant() > 0 && a.constant() >= 0)
      return a.constant() % b.constant();
  }
  if (a.is_zero()) return a;
  return atom(Atom::Kind::kMod, a, b);
}

IndexExpr IndexExpr::min(const IndexExpr& a, const IndexExpr& b) {
  const IndexExpr difference = a - b;
  if (difference.is_constant()) return difference.constant() <= 0 ? a : b;
  return atom(Atom::Kind::kMin, a, b);
}

IndexExpr IndexExpr::max(const IndexExpr& a, const IndexExpr& b) {
  const IndexExpr difference = a - b;
  if (difference.is_constant()) return difference.constant() >= 0 ? a : b;
  return atom(Atom::Kind::kMax, a, b);
}

IndexExpr IndexExpr::of(Atom::Kind kind, const IndexExpr& a, const IndexExpr& b) {
  switch (kind) {
    case Atom::Kind::kDiv:
      return div(a, b);
    case Atom::Kind::kMod:
      return mod(a, b);
    case Atom::Kind::kMin:
      return min(a, b);
    case Atom::Kind::kMax:
      return max(a, b);
    default:
      return a * b;
  }
}

}  // namespace tessera::tile::ir
