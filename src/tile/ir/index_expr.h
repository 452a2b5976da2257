// Index expressions: what offsets, extents, sizes and valid shapes are made of.
//
// A constant plus a sum of coefficient * atom, kept sorted, so that equal expressions are equal
// text. An atom is a name (a symbol or a loop variable), an element of an int32 tensor, a product
// of two expressions that are not constant, a floor division, a remainder, a minimum or a maximum.
// Division and remainder are those of non-negative numbers: every index in a kernel is one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::tile::ir {

class IndexExpr;

struct Atom {
  enum class Kind : std::uint8_t { kName, kElement, kProduct, kDiv, kMod, kMin, kMax };
  Kind kind = Kind::kName;
  std::string name;             // kName; kElement: the tensor
  std::vector<IndexExpr> args;  // kElement: its index; otherwise the two operands
  std::string text;             // as printed: the sort key
};
using AtomPtr = std::shared_ptr<const Atom>;

class IndexExpr {
 public:
  struct Term {
    AtomPtr atom;
    std::int64_t coefficient;
  };

  IndexExpr() = default;
  IndexExpr(std::int64_t constant)
      : constant_(constant) {}  // NOLINT: numbers are index expressions

  static IndexExpr name(const std::string& name);
  static IndexExpr element(const std::string& tensor, std::vector<IndexExpr> index);

  std::int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  bool is_zero() const { return terms_.empty() && constant_ == 0; }
  // The name, if the expression is nothing but one.
  const std::string* as_name() const;

  // The factor of a name in the sum; names inside other atoms are not counted: see uses().
  std::int64_t coefficient(const std::string& name) const;
  bool uses(const std::string& name) const;
  // True if the name occurs inside a division, product, minimum, element ...
  bool uses_inside_atom(const std::string& name) const;
  void visit_atoms(const std::function<void(const Atom&)>& visit) const;  // outer ones first

  IndexExpr substitute(const std::map<std::string, IndexExpr>& values) const;
  IndexExpr rename_tensors(const std::map<std::string, std::string>& names) const;

  std::string to_string() const;
  bool operator==(const IndexExpr& other) const;

  IndexExpr operator+(const IndexExpr& other) const;
  IndexExpr operator-(const IndexExpr& other) const;
  IndexExpr operator*(const IndexExpr& other) const;
  static IndexExpr div(const IndexExpr& a, const IndexExpr& b);
  static IndexExpr mod(const IndexExpr& a, const IndexExpr& b);
  static IndexExpr min(const IndexExpr& a, const IndexExpr& b);
  static IndexExpr max(const IndexExpr& a, const IndexExpr& b);
  static IndexExpr of(Atom::Kind kind, const IndexExpr& a, const IndexExpr& b);

 private:
  static IndexExpr atom(Atom::Kind kind, const IndexExpr& a, const IndexExpr& b);
  IndexExpr scaled(std::int64_t factor) const;
  void add(const AtomPtr& atom, std::int64_t coefficient);

  std::int64_t constant_ = 0;
  std::vector<Term> terms_;
};

// Bounds, both inclusive; nothing where unknown.
struct Range {
  std::optional<std::int64_t> low;
  std::optional<std::int64_t> high;
};
using Ranges = std::map<std::string, Range>;

Range range_of(const IndexExpr& expression, const Ranges& ranges);

// True where it can be shown from the ranges; false where it can't.
bool always_less_equal(const IndexExpr& a, const IndexExpr& b, const Ranges& ranges);

// Divisions, remainders, minima and maxima that the ranges decide are taken out.
IndexExpr simplify(const IndexExpr& expression, const Ranges& ranges);

}  // namespace tessera::tile::ir
