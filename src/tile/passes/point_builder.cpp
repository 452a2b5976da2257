#include "tile/passes/point_builder.h"

#include <fmt/format.h>

#include "tile/ir/fail.h"

namespace tessera::tile::passes {

using ir::Atom;
using ir::IndexExpr;
using ir::Kind;

int PointBuilder::add(ir::Op op) {
  op.result = next_value_++;
  ops_.push_back(std::move(op));
  return ops_.back().result;
}

int PointBuilder::load(const std::string& memory, Element element, std::vector<IndexExpr> index,
                       const Location& location) {
  for (IndexExpr& i : index) {
    i = simplify(i, ranges_);
    request_split(i);
  }
  const std::string key = memory + ir::shape_text(index);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  ir::Op op;
  op.kind = Kind::kLoad;
  op.memory = memory;
  op.type.element = element;
  op.index = std::move(index);
  op.location = location;
  return known_[key] = add(std::move(op));
}

int PointBuilder::value_at(int tile, const std::vector<IndexExpr>& index) {
  const std::string key = fmt::format("%{}{}", tile, ir::shape_text(index));
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const ir::Op& op = tiles_.defined.at(tile);
  const auto in_memory = tiles_.memory.find(tile);
  const int value = in_memory != tiles_.memory.end()
                        ? load(in_memory->second, op.type.element, index, op.location)
                        : compute(op, index);
  return known_[key] = value;
}

int PointBuilder::compute(const ir::Op& op, const std::vector<IndexExpr>& index) {
  std::vector<IndexExpr> inner = index;
  switch (op.kind) {
    case Kind::kView:
      for (std::size_t d = 0; d < inner.size(); ++d) {
        inner[d] = op.index[d] + inner[d] * (op.ints.empty() ? 1 : op.ints[d]);
      }
      return load(op.memory, op.type.element, inner, op.location);
    case Kind::kReshape:
      return value_at(op.operands[0], reshaped(op, index));
    case Kind::kTranspose:
      for (std::size_t d = 0; d < inner.size(); ++d)
        inner[static_cast<std::size_t>(op.ints[d])] = index[d];
      return value_at(op.operands[0], inner);
    case Kind::kSlice:
      for (std::size_t d = 0; d < inner.size(); ++d) inner[d] = inner[d] + op.ints[d];
      return value_at(op.operands[0], inner);
    case Kind::kConcat:
      return concat_at(op, index);
    default:
      break;
  }
  // Pointwise, with broadcasting: missing leading dims, and extents of 1.
  ir::Op point;
  point.kind = op.kind;
  point.number = op.number;
  point.location = op.location;
  point.type.element = op.type.element;
  for (int operand : op.operands) {
    const ir::Type& type = tiles_.defined.at(operand).type;
    std::vector<IndexExpr> at(index.end() - static_cast<std::ptrdiff_t>(type.shape.size()),
                              index.end());
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (type.shape[d] == 1) at[d] = 0;
    }
    point.operands.push_back(value_at(operand, at));
  }
  if (op.kind == Kind::kExpand) return point.operands[0];
  if (!is_pointwise(op.kind)) throw NeedsMemory{op.result};
  if (op.kind == Kind::kConst) {
    const std::string key = fmt::format("const {} {}", op.number, to_string(op.type.element));
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_[key] = add(std::move(point));
  }
  return add(std::move(point));
}

std::vector<IndexExpr> PointBuilder::reshaped(const ir::Op& op,
                                              const std::vector<IndexExpr>& index) {
  const std::vector<std::int64_t>& from = tiles_.defined.at(op.operands[0]).type.shape;
  const std::vector<std::int64_t>& to = op.type.shape;
  std::vector<IndexExpr> result(from.size(), 0);
  // Leading dims that stay are kept as they are; the others go through their position in memory
  // order.
  std::size_t same = 0;
  while (same < from.size() && same < to.size() && from[same] == to[same]) {
    result[same] = index[same];
    ++same;
  }
  IndexExpr position = 0;
  for (std::size_t d = same; d < to.size(); ++d) position = position * to[d] + index[d];
  std::int64_t inner = 1;
  for (std::size_t d = from.size(); d-- > same;) {
    IndexExpr at = simplify(IndexExpr::div(position, inner), ranges_);
    if (d > same) at = simplify(IndexExpr::mod(at, from[d]), ranges_);
    request_split(at);
    result[d] = at;
    inner *= from[d];
  }
  return result;
}

void PointBuilder::request_split(const IndexExpr& index) const {
  index.visit_atoms([&](const Atom& atom) {
    if (atom.kind != Atom::Kind::kDiv && atom.kind != Atom::Kind::kMod) return;
    const IndexExpr& a = atom.args[0];
    if (!atom.args[1].is_constant()) return;
    const std::int64_t divisor = atom.args[1].constant();
    for (const ir::Var& var : domain_) {
      const std::int64_t coefficient = a.coefficient(var.name);
      if (coefficient <= 0 || !var.extent.is_constant() || coefficient % divisor == 0) continue;
      // var * coefficient crosses multiples of divisor: split var where it does.
      if (divisor % coefficient != 0) continue;
      const std::int64_t inner = divisor / coefficient;
      if (inner > 1 && var.extent.constant() > inner && var.extent.constant() % inner == 0) {
        throw SplitVar{var.name, inner};
      }
    }
  });
}

int PointBuilder::concat_at(const ir::Op& op, const std::vector<IndexExpr>& index) {
  const auto axis = static_cast<std::size_t>(op.ints[0]);
  const IndexExpr& along = index[axis];
  const ir::Range range = range_of(along, ranges_);
  std::int64_t begin = 0;
  for (int operand : op.operands) {
    const std::int64_t end = begin + tiles_.defined.at(operand).type.shape[axis];
    const bool from_here = range.low && *range.low >= begin;
    if (from_here && range.high && *range.high < end) {
      std::vector<IndexExpr> inner = index;
      inner[axis] = along - begin;
      return value_at(operand, inner);
    }
    if (from_here && *range.low < end) {
      // It begins in this part and goes on in the next: cut there, if one variable walks along.
      for (const ir::Var& var : domain_) {
        const IndexExpr rest = along - IndexExpr::name(var.name);
        if (rest.is_constant() && !var.reduces) throw CutVar{var.name, end - rest.constant()};
      }
      throw NeedsMemory{op.result};
    }
    begin = end;
  }
  throw NeedsMemory{op.result};
}

}  // namespace tessera::tile::passes
