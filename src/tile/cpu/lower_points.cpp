#include "tile/cpu/lower_points.h"

#include <limits>

#include "tile/ir/fail.h"
#include "tile/ir/print.h"

namespace tessera::tile::cpu {

using ir::IndexExpr;
using ir::Kind;
using ir::Op;

Movement movement(const IndexExpr& offset, const std::string& var) {
  Movement result;
  for (const IndexExpr::Term& term : offset.terms()) {
    const ir::Atom& atom = *term.atom;
    if (atom.kind == ir::Atom::Kind::kName) {
      if (atom.name == var) result.stride = result.stride + term.coefficient;
      continue;
    }
    bool inside = false;
    for (const IndexExpr& arg : atom.args) inside = inside || arg.uses(var);
    if (!inside) continue;
    // A product with a dim that is known when the kernel runs is a stride, too.
    const std::string* a = atom.args[0].as_name();
    const std::string* b = atom.args.size() == 2 ? atom.args[1].as_name() : nullptr;
    if (atom.kind != ir::Atom::Kind::kProduct || a == nullptr || b == nullptr || *a == *b)
      return {};
    result.stride = result.stride + IndexExpr::name(*a == var ? *b : *a) * term.coefficient;
  }
  result.known = true;
  return result;
}

bool PointEmitter::moves(const Op& op, const Points& points) const {
  if (points.vector_var.empty()) return false;
  if (op.kind == Kind::kAcc) return true;
  if (op.kind == Kind::kLoad) {
    const Movement m = movement(c_.offset_of(op), points.vector_var);
    return !m.known || !m.stride.is_zero();
  }
  for (int operand : op.operands) {
    if (values_.at(operand).lanes) return true;
  }
  return false;
}

bool PointEmitter::is_fused_product(const Op& op) const {
  if (op.kind != Kind::kMul || !sums() || body_.back().operands[0] != op.result) return false;
  return &op == &body_[body_.size() - 2];
}

void PointEmitter::hoist(const Points& points) {
  std::map<int, bool> lanes;
  for (const Op& op : body_) {
    if (op.result < 0 || op.kind == Kind::kAcc || is_fused_product(op)) continue;
    bool ready = true;
    for (int operand : op.operands) ready = ready && values_.contains(operand);
    if (ready && !moves(op, points)) one(op, points);
  }
}

void PointEmitter::emit(const Points& points) {
  paired_.clear();
  for (const Op& op : body_) {
    if (op.result >= 0) {
      const auto known = values_.find(op.result);
      const bool hoisted =
          known != values_.end() && !known->second.lanes && !points.vector_var.empty();
      const bool loaded = paired_.contains(op.result);
      if (!hoisted && !loaded && !is_fused_product(op)) one(op, points);
    } else if (op.kind == Kind::kStore) {
      store(op, points);
    }
  }
}

llvm::Value* PointEmitter::operand(int value, bool lanes) {
  const Value& known = values_.at(value);
  if (!lanes || known.lanes) return known.value;
  return c_.b.splat(known.value);
}

llvm::Value* PointEmitter::accumulated(const Points& points, llvm::Value* sum) {
  const Op& accumulate = body_.back();
  const bool vector = !points.vector_var.empty();
  VectorBuilder& b = c_.b;
  const Op* product = body_.size() >= 2 && is_fused_product(body_[body_.size() - 2])
                          ? &body_[body_.size() - 2]
                          : nullptr;
  llvm::Value* next = nullptr;
  if (product != nullptr) {
    next = b.mul_add(operand(product->operands[0], vector), operand(product->operands[1], vector),
                     sum);
  } else {
    llvm::Value* value = operand(accumulate.operands[0], vector);
    next = sums() ? b.add(sum, value) : b.maximum(sum, value);
  }
  // Lanes that are not real keep what they have.
  return points.mask == nullptr ? next : b.ir().CreateSelect(points.mask, next, sum);
}

void PointEmitter::one(const Op& op, const Points& points) {
  elements_[op.result] = op.type.element;
  if (op.kind == Kind::kAcc) {
    values_[op.result] = {points.acc, !points.vector_var.empty()};
  } else if (op.kind == Kind::kLoad) {
    values_[op.result] = load(op, points);
  } else {
    const bool lanes = moves(op, points);
    values_[op.result] = {compute(op, lanes), lanes};
  }
}

PointEmitter::Partner PointEmitter::partner(const Op& op, const Points& points) const {
  const IndexExpr offset = c_.offset_of(op);
  if (!movement(offset, points.vector_var).is(2)) return {};
  for (const Op& other : body_) {
    if (&other == &op || other.kind != op.kind || other.memory != op.memory) continue;
    const IndexExpr distance = c_.offset_of(other) - offset;
    if (distance == IndexExpr(1)) return {&other, true};
    if (distance == IndexExpr(-1)) return {&other, false};
  }
  return {};
}

PointEmitter::Value PointEmitter::load(const Op& op, const Points& points) {
  VectorBuilder& b = c_.b;
  const IndexExpr offset = c_.offset_of(op);
  const cpu::Element element = storage(op.type.element);
  const Movement move = movement(offset, points.vector_var);
  if (points.vector_var.empty() || move.is(0))
    return {b.load_scalar(element, c_.address(op, offset)), false};
  if (!move.known) fail_at(code::kCannotLower, op.location, "{}: no vector load", print(op));
  if (move.is(1)) return {b.load(element, c_.address(op, offset), points.mask), true};
  // Pairs: both at once. Each element is accessed by one of the two, so nothing is read beyond
  // them.
  if (const Partner other = partner(op, points); other.op != nullptr) {
    const IndexExpr first = other.is_second ? offset : offset - 1;
    const VectorBuilder::Pair pair =
        b.load_interleaved(element, c_.address(op, first), points.count);
    values_[other.op->result] = {pair[other.is_second ? 1 : 0], true};
    elements_[other.op->result] = other.op->type.element;
    paired_.insert(other.op->result);
    return {pair[other.is_second ? 0 : 1], true};
  }
  llvm::Value* stride = c_.eval(move.stride * element_bytes(element));
  return {b.load_strided(element, c_.address(op, offset), stride, points.count), true};
}

void PointEmitter::store(const Op& op, const Points& points) {
  VectorBuilder& b = c_.b;
  const ir::Memory& memory = *c_.kernel.find_memory(op.memory);
  const IndexExpr offset = c_.offset_of(op);
  const cpu::Element element = storage(memory.element);
  llvm::Value* address = c_.address(op, offset);
  if (points.vector_var.empty())
    return b.store_scalar(element, operand(op.operands[0], false), address);
  const Movement move = movement(offset, points.vector_var);
  llvm::Value* value = operand(op.operands[0], true);
  if (move.is(1)) return b.store(element, value, address, points.mask);
  if (!move.known) fail_at(code::kCannotLower, op.location, "{}: no vector store", print(op));
  if (const Partner other = partner(op, points); other.op != nullptr) {
    // With the later of the two, when both values are there.
    if (other.op > &op) return;
    llvm::Value* theirs = operand(other.op->operands[0], true);
    const IndexExpr first = other.is_second ? offset : offset - 1;
    const VectorBuilder::Pair pair =
        other.is_second ? VectorBuilder::Pair{value, theirs} : VectorBuilder::Pair{theirs, value};
    return b.store_interleaved(element, pair, c_.address(op, first), points.count);
  }
  b.store_strided(element, value, address, c_.eval(move.stride * element_bytes(element)),
                  points.count);
}

llvm::Value* PointEmitter::convert(const Op& op, llvm::Value* from, tile::Element from_element) {
  VectorBuilder& b = c_.b;
  const tile::Element to = op.type.element;
  const bool from_int = !is_float(from_element);
  const bool to_int = !is_float(to);
  if (from_int && to_int)
    return to == from_element ? from : b.widen(storage(to), b.narrow(storage(to), from));
  if (from_int) from = b.int_to_float(from);
  if (to == tile::Element::kI32) return b.float_to_int(from);
  return to == tile::Element::kF32 || (to == from_element) ? from : b.round(storage(to), from);
}

llvm::Value* PointEmitter::compute(const Op& op, bool lanes) {
  VectorBuilder& b = c_.b;
  llvm::IRBuilder<>& ir = c_.ir();
  if (op.kind == Kind::kConst)
    return llvm::ConstantFP::get(ir.getFloatTy(), static_cast<float>(op.number));
  std::vector<llvm::Value*> in;
  for (int value : op.operands) in.push_back(operand(value, lanes));
  if (is_comparison(op.kind)) {
    const bool floats = is_float(elements_.at(op.operands[0]));
    switch (op.kind) {
      case Kind::kLess:
        return floats ? ir.CreateFCmpOLT(in[0], in[1]) : ir.CreateICmpSLT(in[0], in[1]);
      case Kind::kLessEqual:
        return floats ? ir.CreateFCmpOLE(in[0], in[1]) : ir.CreateICmpSLE(in[0], in[1]);
      case Kind::kGreater:
        return floats ? ir.CreateFCmpOGT(in[0], in[1]) : ir.CreateICmpSGT(in[0], in[1]);
      case Kind::kGreaterEqual:
        return floats ? ir.CreateFCmpOGE(in[0], in[1]) : ir.CreateICmpSGE(in[0], in[1]);
      case Kind::kEqual:
        return floats ? ir.CreateFCmpOEQ(in[0], in[1]) : ir.CreateICmpEQ(in[0], in[1]);
      default:
        return floats ? ir.CreateFCmpUNE(in[0], in[1]) : ir.CreateICmpNE(in[0], in[1]);
    }
  }
  switch (op.kind) {
    case Kind::kNeg:
      return b.neg(in[0]);
    case Kind::kExp:
      return b.exp(in[0]);
    case Kind::kSqrt:
      return b.sqrt(in[0]);
    case Kind::kRsqrt:
      return b.rsqrt(in[0]);
    case Kind::kSigmoid:
      return b.sigmoid(in[0]);
    case Kind::kCast:
      return convert(op, in[0], elements_.at(op.operands[0]));
    case Kind::kAdd:
      return b.add(in[0], in[1]);
    case Kind::kSub:
      return b.sub(in[0], in[1]);
    case Kind::kMul:
      return b.mul(in[0], in[1]);
    case Kind::kDivide:
      return b.div(in[0], in[1]);
    case Kind::kMaximum:
      return b.maximum(in[0], in[1]);
    case Kind::kMinimum:
      return b.minimum(in[0], in[1]);
    case Kind::kWhere:
      return ir.CreateSelect(in[0], in[1], in[2]);
    default:
      fail_at(code::kCannotLower, op.location, "{} at a point", to_string(op.kind));
  }
}

}  // namespace tessera::tile::cpu
