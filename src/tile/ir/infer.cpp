#include "tile/ir/infer.h"

#include <algorithm>

#include "tile/ir/fail.h"
#include "tile/ir/print.h"

namespace tessera::tile::ir {

namespace {

using Operands = std::vector<const Op*>;

[[noreturn]] void mismatch(const Op& op, const Operands& operands, std::string_view wanted) {
  std::string types;
  for (const Op* operand : operands) {
    if (!types.empty()) types += " and ";
    types += print(operand->type);
  }
  fail_at(code::kDtypeMismatch, op.location, "{} takes {}, not {}", to_string(op.kind), wanted,
          types);
}

void want_floats(const Op& op, const Operands& operands) {
  for (const Op* operand : operands) {
    if (!is_float(operand->type.element)) {
      mismatch(op, operands, "floating-point tiles (cast integers first)");
    }
  }
}

std::size_t axis_of(const Op& op, std::size_t rank) {
  const std::int64_t axis = op.ints.size() == 1 ? op.ints[0] : -1;
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) {
    fail_at(code::kUnsupportedShape, op.location, "{}: axis {} of a tile of rank {}",
            to_string(op.kind), axis, rank);
  }
  return static_cast<std::size_t>(axis);
}

Type infer_view(const Op& op, const Memory& memory) {
  if (memory.panels) {
    fail_at(code::kUnsupportedShape, op.location,
            "{} is a packed weight: it can be an operand of matmul, not be viewed", memory.name);
  }
  const std::size_t rank = memory.dims.size();
  if (op.type.shape.size() != rank || op.index.size() != rank || op.type.valid.size() != rank ||
      (!op.ints.empty() && op.ints.size() != rank)) {
    fail_at(code::kUnsupportedShape, op.location,
            "view of {}{}: shape {} and offsets {} must have the tensor's rank {}", memory.name,
            shape_text(memory.dims), shape_text(op.type.shape), shape_text(op.index), rank);
  }
  Type type = op.type;
  type.element = memory.element;
  return type;
}

Type infer_reshape(const Op& op, const Type& from) {
  Type to = Type::full(from.element, op.type.shape);
  if (to.elements() != from.elements()) {
    fail_at(code::kUnsupportedShape, op.location, "reshape of {} to {}: {} elements are not {}",
            shape_text(from.shape), shape_text(to.shape), from.elements(), to.elements());
  }
  if (from.fully_valid()) return to;
  // Leading dimensions that stay as they are keep their valid extent; behind them all must be
  // valid.
  std::size_t same = 0;
  while (same < from.shape.size() && same < to.shape.size() && from.shape[same] == to.shape[same]) {
    to.valid[same] = from.valid[same];
    ++same;
  }
  for (std::size_t d = same; d < from.shape.size(); ++d) {
    if (!from.fully_valid(d)) {
      fail_at(code::kUnsupportedShape, op.location,
              "reshape of a partly valid tile {} to {}: dimension {} would be torn apart",
              print(from), shape_text(to.shape), d);
    }
  }
  return to;
}

Type infer_transpose(const Op& op, const Type& from) {
  std::vector<std::int64_t> sorted = op.ints;
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = sorted.size() == from.shape.size();
  for (std::size_t d = 0; is_permutation && d < sorted.size(); ++d) {
    is_permutation = sorted[d] == static_cast<std::int64_t>(d);
  }
  if (!is_permutation) {
    fail_at(code::kUnsupportedShape, op.location,
            "transpose: {} is no permutation of the {} dimensions of {}", shape_text(op.ints),
            from.shape.size(), shape_text(from.shape));
  }
  Type to;
  to.element = from.element;
  for (std::int64_t d : op.ints) {
    to.shape.push_back(from.shape[static_cast<std::size_t>(d)]);
    to.valid.push_back(from.valid[static_cast<std::size_t>(d)]);
  }
  return to;
}

Type infer_concat(const Op& op, const Operands& operands) {
  Type type = operands[0]->type;
  const std::size_t axis = axis_of(op, type.shape.size());
  for (std::size_t i = 1; i < operands.size(); ++i) {
    const Type& next = operands[i]->type;
    bool fits = next.element == type.element && next.shape.size() == type.shape.size();
    for (std::size_t d = 0; fits && d < type.shape.size(); ++d) {
      fits = d == axis || (next.shape[d] == type.shape[d] && next.valid[d] == type.valid[d]);
    }
    if (!fits) {
      fail_at(code::kUnsupportedShape, op.location, "concat along {}: {} does not continue {}",
              axis, print(next), print(type));
    }
    if (!type.fully_valid(axis)) {
      fail_at(code::kUnsupportedShape, op.location,
              "concat along {}: only the last part may be partly valid there, not {}", axis,
              print(type));
    }
    type.valid[axis] = IndexExpr(type.shape[axis]) + next.valid[axis];
    type.shape[axis] += next.shape[axis];
  }
  return type;
}

Type infer_slice(const Op& op, const Type& from) {
  const std::size_t rank = from.shape.size();
  bool fits = op.type.shape.size() == rank && op.ints.size() == rank;
  Type to = Type::full(from.element, op.type.shape);
  for (std::size_t d = 0; fits && d < rank; ++d) {
    fits = op.ints[d] >= 0 && to.shape[d] >= 1 && op.ints[d] + to.shape[d] <= from.shape[d];
    if (!from.fully_valid(d)) {
      to.valid[d] = IndexExpr::max(0, IndexExpr::min(to.shape[d], from.valid[d] - op.ints[d]));
    }
  }
  if (!fits) {
    fail_at(code::kOutOfBounds, op.location, "slice {} at {} leaves the tile {}",
            shape_text(op.type.shape), shape_text(op.ints), shape_text(from.shape));
  }
  return to;
}

Type infer_expand(const Op& op, const Type& from) {
  Type to = Type::full(from.element, op.type.shape);
  bool fits = to.shape.size() == from.shape.size();
  for (std::size_t d = 0; fits && d < to.shape.size(); ++d) {
    if (from.shape[d] == to.shape[d]) {
      to.valid[d] = from.valid[d];
    } else {
      fits = from.shape[d] == 1 && from.fully_valid(d);
    }
  }
  if (!fits) {
    fail_at(code::kUnsupportedShape, op.location, "expand of {} to {}: only extents of 1 can grow",
            print(from), shape_text(to.shape));
  }
  return to;
}

Type infer_matmul(const Op& op, const Op& a, const Op& b) {
  if (op.ints.size() != 2 || a.type.shape.size() != 2 || b.type.shape.size() != 2) {
    fail_at(code::kUnsupportedShape, op.location, "matmul takes two tiles of rank 2, not {} and {}",
            print(a.type), print(b.type));
  }
  const bool a_trans = op.ints[0] != 0;
  const bool b_trans = op.ints[1] != 0;
  const std::size_t m = a_trans ? 1 : 0;
  const std::size_t n = b_trans ? 0 : 1;
  if (a.kind == Kind::kWeight || (b.kind == Kind::kWeight && !b_trans)) {
    fail_at(code::kUnsupportedShape, op.location,
            "a packed weight [n, k] can only be the right operand of matmul, with b_trans");
  }
  if (a.type.shape[1 - m] != b.type.shape[1 - n]) {
    fail_at(code::kUnsupportedShape, op.location,
            "matmul{}{} of {} and {}: the summed extents {} and {} differ",
            a_trans ? " a_trans" : "", b_trans ? " b_trans" : "", shape_text(a.type.shape),
            shape_text(b.type.shape), a.type.shape[1 - m], b.type.shape[1 - n]);
  }
  if (b.kind == Kind::kWeight && !is_float(b.type.element)) {
    if (a.type.element != Element::kF32) {
      mismatch(op, {&a, &b}, "an fp32 left operand, which a quantised weight quantises");
    }
  } else {
    want_floats(op, {&a, &b});
    if (a.type.element != b.type.element) {
      mismatch(op, {&a, &b}, "operands of one element type (cast the left one)");
    }
  }
  if (!is_float(op.type.element)) {
    fail_at(code::kDtypeMismatch, op.location, "matmul to {}: the result is a floating-point tile",
            to_string(op.type.element));
  }
  Type type = Type::full(op.type.element, {a.type.shape[m], b.type.shape[n]});
  type.valid = {a.type.valid[m], b.type.valid[n]};
  return type;
}

Type infer_where(const Op& op, const Operands& operands) {
  const Element a = operands[1]->type.element;
  const Element b = operands[2]->type.element;
  if (operands[0]->type.element != Element::kBool) {
    mismatch(op, operands, "a comparison and two tiles");
  }
  Element element = a;
  if (a != b) {
    if (!is_float(a) || !is_float(b)) mismatch(op, operands, "two tiles of like element types");
    element = Element::kF32;
  }
  if (element == Element::kBool) mismatch(op, operands, "numbers to choose from");
  Type type = broadcast(op, operands[0]->type, broadcast(op, operands[1]->type, operands[2]->type));
  type.element = element;
  return type;
}

}  // namespace

Type broadcast(const Op& op, const Type& a, const Type& b) {
  const std::size_t rank = std::max(a.shape.size(), b.shape.size());
  Type type;
  type.shape.assign(rank, 1);
  type.valid.assign(rank, 1);
  for (const Type* part : {&a, &b}) {
    const std::size_t skip = rank - part->shape.size();
    for (std::size_t d = 0; d < part->shape.size(); ++d) {
      std::int64_t& extent = type.shape[skip + d];
      IndexExpr& valid = type.valid[skip + d];
      const std::int64_t other = part->shape[d];
      const bool fits = extent == other || extent == 1 || (other == 1 && part->fully_valid(d));
      if (!fits || (extent == 1 && other != 1 && valid != IndexExpr(1))) {
        fail_at(code::kUnsupportedShape, op.location,
                "{} of {} and {}: dimension {} does not broadcast", to_string(op.kind), print(a),
                print(b), skip + d);
      }
      if (extent == other) {
        valid = IndexExpr::min(valid, part->valid[d]);
      } else if (extent == 1) {
        extent = other;
        valid = part->valid[d];
      }
    }
  }
  return type;
}

Type infer(const Op& op, const std::vector<const Op*>& operands, const Memory* memory) {
  const Kind kind = op.kind;
  for (const Op* operand : operands) {
    if (operand->kind == Kind::kWeight && kind != Kind::kMatmul) {
      fail_at(code::kUnsupportedShape, op.location,
              "a packed weight can only be an operand of matmul, not of {}", to_string(kind));
    }
  }
  if (kind == Kind::kView) return infer_view(op, *memory);
  if (kind == Kind::kWeight) {
    std::vector<std::int64_t> shape;
    for (const IndexExpr& dim : memory->dims) shape.push_back(dim.constant());
    return Type::full(memory->element, shape);
  }
  if (kind == Kind::kConst) {
    return Type::full(op.type.element, op.type.shape);
  }
  const Type& first = operands[0]->type;
  switch (kind) {
    case Kind::kReshape:
      return infer_reshape(op, first);
    case Kind::kTranspose:
      return infer_transpose(op, first);
    case Kind::kExpand:
      return infer_expand(op, first);
    case Kind::kConcat:
      return infer_concat(op, operands);
    case Kind::kSlice:
      return infer_slice(op, first);
    case Kind::kMatmul:
      return infer_matmul(op, *operands[0], *operands[1]);
    case Kind::kWhere:
      return infer_where(op, operands);
    case Kind::kSum:
    case Kind::kMaxOver: {
      want_floats(op, operands);
      Type type = first;
      type.element = Element::kF32;
      const std::size_t axis = axis_of(op, type.shape.size());
      type.shape[axis] = 1;
      type.valid[axis] = 1;
      return type;
    }
    case Kind::kCast: {
      if (first.element == Element::kBool || op.type.element == Element::kBool) {
        mismatch(op, operands, "numbers (use where for a comparison)");
      }
      if (op.type.element == Element::kI4)
        mismatch(op, operands, "another type: int4 is packed only");
      Type type = first;
      type.element = op.type.element;
      return type;
    }
    default:
      break;
  }
  if (is_comparison(kind)) {
    const Element a = first.element;
    const Element b = operands[1]->type.element;
    if (!(is_float(a) && is_float(b)) && !(a == Element::kI32 && b == Element::kI32)) {
      mismatch(op, operands, "two floating-point or two int32 tiles");
    }
    Type type = broadcast(op, first, operands[1]->type);
    type.element = Element::kBool;
    return type;
  }
  want_floats(op, operands);
  Type type = is_unary(kind) ? first : broadcast(op, first, operands[1]->type);
  type.element = Element::kF32;
  return type;
}

}  // namespace tessera::tile::ir
