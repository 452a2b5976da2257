// The functions of include/tessera/tile.h that record operations.
#include <tessera/tile.h>

#include "tile/ir/fail.h"
#include "tile/trace/tracer.h"

namespace tessera::tile {

using ir::IndexExpr;
using ir::Kind;

Index::Index(std::int64_t value) : expression_(std::make_shared<const IndexExpr>(value)) {}
Index::Index(const IndexExpr& expression)
    : expression_(std::make_shared<const IndexExpr>(expression)) {}
std::string Index::to_string() const {
  return expression_->to_string();
}

Index operator+(const Index& a, const Index& b) {
  return Index(a.expression() + b.expression());
}
Index operator-(const Index& a, const Index& b) {
  return Index(a.expression() - b.expression());
}
Index operator*(const Index& a, const Index& b) {
  return Index(a.expression() * b.expression());
}
Index operator/(const Index& a, const Index& b) {
  return Index(IndexExpr::div(a.expression(), b.expression()));
}
Index operator%(const Index& a, const Index& b) {
  return Index(IndexExpr::mod(a.expression(), b.expression()));
}
Index min(const Index& a, const Index& b) {
  return Index(IndexExpr::min(a.expression(), b.expression()));
}
Index max(const Index& a, const Index& b) {
  return Index(IndexExpr::max(a.expression(), b.expression()));
}
Index axis(int d) {
  return Index(IndexExpr::name(ir::axis_name(static_cast<std::size_t>(d))));
}

namespace {

std::vector<IndexExpr> expressions(const Indices& indices) {
  std::vector<IndexExpr> result;
  for (const Index& index : indices) result.push_back(index.expression());
  return result;
}

ir::Op make(Kind kind, const Where& where) {
  ir::Op op;
  op.kind = kind;
  op.location = to_location(where);
  return op;
}

// Where an operation on operands was written: the first tile's place, a number's otherwise.
Tile pointwise(Kind kind, std::initializer_list<const Operand*> operands) {
  const Operand& first = **operands.begin();
  Tracer& tracer = Tracer::current(ir::to_string(kind), first.where);
  ir::Op op = make(kind, first.where);
  for (const Operand* operand : operands) op.operands.push_back(tracer.operand(*operand).id());
  return tracer.add(std::move(op));
}

Tile reduce(Kind kind, const Operand& a, int axis) {
  Tracer& tracer = Tracer::current(ir::to_string(kind), a.where);
  ir::Op op = make(kind, a.where);
  op.operands = {tracer.operand(a).id()};
  op.ints = {axis};
  return tracer.add(std::move(op));
}

}  // namespace

std::int64_t Tensor::size(int d, Where where) const {
  const Index extent = dim(d);
  if (!extent.expression().is_constant()) {
    fail_at(code::kDynamicDim, to_location(where),
            "dim {} of {} is dynamic ({}): its size is not known here", d, name_,
            extent.to_string());
  }
  return extent.expression().constant();
}

Index Tensor::operator[](const Index& i) const {
  return at({i});
}

Index Tensor::at(Indices indices) const {
  if (element_ != Element::kI32 || indices.size() != dims_.size()) {
    fail_at(code::kDtypeMismatch, {},
            "{}: an element as an index needs an int32 tensor and {} indices, not {} {}", name_,
            dims_.size(), to_string(element_), indices.size());
  }
  return Index(IndexExpr::element(name_, expressions(indices)));
}

int Tile::rank() const {
  return static_cast<int>(shape().size());
}
std::int64_t Tile::size(int d) const {
  return shape().at(static_cast<std::size_t>(d));
}
std::vector<std::int64_t> Tile::shape() const {
  return Tracer::current("shape", Where::current()).type(*this).shape;
}
Element Tile::element() const {
  return Tracer::current("element", Where::current()).type(*this).element;
}
Indices Tile::valid_shape() const {
  Indices valid;
  for (const IndexExpr& extent :
       Tracer::current("valid_shape", Where::current()).type(*this).valid) {
    valid.emplace_back(extent);
  }
  return valid;
}

Operand::Operand(const Tensor& packed, Where at) : where(at) {
  Tracer& tracer = Tracer::current("a tensor as an operand", at);
  const Location location = to_location(at);
  if (!tracer.memory(packed, location).panels) {
    fail_at(code::kUnsupportedShape, location, "{} is no packed weight: view it first",
            packed.name());
  }
  ir::Op op = make(Kind::kWeight, at);
  op.memory = packed.name();
  tile = tracer.add(std::move(op));
}

Tile view(const Tensor& x, Indices shape, Indices offsets, Access access, Where where) {
  Tracer& tracer = Tracer::current("view", where);
  ir::Op op = make(Kind::kView, where);
  op.memory = tracer.memory(x, op.location).name;
  op.index = expressions(offsets);
  op.type = ir::Type::full(
      x.element(), tracer.fixed_shape(shape, fmt::format("view of {}", x.name()), op.location));
  if (!access.valid.empty()) op.type.valid = expressions(access.valid);
  op.ints = std::move(access.step);
  return tracer.view(std::move(op));
}

namespace {

void store(Kind kind, const Operand& value, const Tensor& to, const Indices& indices,
           std::vector<std::int64_t> step) {
  Tracer& tracer = Tracer::current("assemble", value.where);
  ir::Op op = make(kind, value.where);
  op.operands = {tracer.operand(value).id()};
  op.memory = tracer.memory(to, op.location).name;
  op.index = expressions(indices);
  op.ints = std::move(step);
  tracer.store(std::move(op));
}

}  // namespace

void assemble(const Operand& value, const Tensor& to, Indices offsets, Access access) {
  if (!access.valid.empty()) {
    fail_at(code::kUnsupportedShape, to_location(value.where),
            "assemble: the valid shape belongs to the tile; give it to view");
  }
  store(Kind::kAssemble, value, to, offsets, std::move(access.step));
}

void assemble_at(const Operand& value, const Tensor& to, Indices indices) {
  store(Kind::kScatter, value, to, indices, {});
}

Tensor local(std::string name, Element element, Indices dims, Where where) {
  Tracer& tracer = Tracer::current("local", where);
  ir::Memory memory;
  memory.kind = ir::MemoryKind::kLocal;
  memory.name = std::move(name);
  memory.element = element;
  memory.dims = expressions(dims);
  memory.location = to_location(where);
  for (const IndexExpr& dim : memory.dims) {
    dim.visit_atoms([&](const ir::Atom& atom) {
      if (atom.kind == ir::Atom::Kind::kElement) {
        fail_at(code::kUnsupportedShape, memory.location,
                "local {}: a dim that is an element of {}", memory.name, atom.name);
      }
    });
  }
  return tracer.add_memory(std::move(memory));
}

Tile reshape(const Operand& a, Indices shape) {
  Tracer& tracer = Tracer::current("reshape", a.where);
  ir::Op op = make(Kind::kReshape, a.where);
  op.operands = {tracer.operand(a).id()};
  op.type.shape = tracer.fixed_shape(shape, "reshape", op.location);
  return tracer.add(std::move(op));
}

Tile transpose(const Operand& a, std::vector<int> permutation) {
  Tracer& tracer = Tracer::current("transpose", a.where);
  ir::Op op = make(Kind::kTranspose, a.where);
  op.operands = {tracer.operand(a).id()};
  op.ints.assign(permutation.begin(), permutation.end());
  return tracer.add(std::move(op));
}

Tile transpose(const Operand& a) {
  return transpose(a, {1, 0});
}

Tile expand(const Operand& a, Indices shape) {
  Tracer& tracer = Tracer::current("expand", a.where);
  ir::Op op = make(Kind::kExpand, a.where);
  op.operands = {tracer.operand(a).id()};
  op.type.shape = tracer.fixed_shape(shape, "expand", op.location);
  return tracer.add(std::move(op));
}

Tile concat(const std::vector<Tile>& parts, int axis, Where where) {
  Tracer& tracer = Tracer::current("concat", where);
  ir::Op op = make(Kind::kConcat, where);
  if (parts.empty()) fail_at(code::kUnsupportedShape, op.location, "concat of nothing");
  for (const Tile& part : parts) op.operands.push_back(part.id());
  op.ints = {axis};
  return tracer.add(std::move(op));
}

Tile slice(const Operand& a, Indices shape, std::vector<std::int64_t> offsets) {
  Tracer& tracer = Tracer::current("slice", a.where);
  ir::Op op = make(Kind::kSlice, a.where);
  op.operands = {tracer.operand(a).id()};
  op.type.shape = tracer.fixed_shape(shape, "slice", op.location);
  op.ints = std::move(offsets);
  return tracer.add(std::move(op));
}

Tile full(Indices shape, double value, Where where) {
  Tracer& tracer = Tracer::current("full", where);
  ir::Op op = make(Kind::kConst, where);
  op.number = value;
  op.type.shape = tracer.fixed_shape(shape, "full", op.location);
  return tracer.add(std::move(op));
}

Tile matmul(const Operand& a, const Operand& b, MatmulOptions options) {
  Tracer& tracer = Tracer::current("matmul", a.where);
  ir::Op op = make(Kind::kMatmul, a.where);
  op.operands = {tracer.operand(a).id(), tracer.operand(b).id()};
  const bool packed = tracer.is_weight(op.operands[1]);
  op.ints = {options.a_trans ? 1 : 0, options.b_trans || packed ? 1 : 0};
  op.type.element = options.out;
  return tracer.add(std::move(op));
}

Tile operator+(const Operand& a, const Operand& b) {
  return pointwise(Kind::kAdd, {&a, &b});
}
Tile operator-(const Operand& a, const Operand& b) {
  return pointwise(Kind::kSub, {&a, &b});
}
Tile operator*(const Operand& a, const Operand& b) {
  return pointwise(Kind::kMul, {&a, &b});
}
Tile operator/(const Operand& a, const Operand& b) {
  return pointwise(Kind::kDivide, {&a, &b});
}
Tile operator-(const Operand& a) {
  return pointwise(Kind::kNeg, {&a});
}
Tile neg(const Operand& a) {
  return pointwise(Kind::kNeg, {&a});
}
Tile exp(const Operand& a) {
  return pointwise(Kind::kExp, {&a});
}
Tile sqrt(const Operand& a) {
  return pointwise(Kind::kSqrt, {&a});
}
Tile rsqrt(const Operand& a) {
  return pointwise(Kind::kRsqrt, {&a});
}
Tile sigmoid(const Operand& a) {
  return pointwise(Kind::kSigmoid, {&a});
}
Tile maximum(const Operand& a, const Operand& b) {
  return pointwise(Kind::kMaximum, {&a, &b});
}
Tile minimum(const Operand& a, const Operand& b) {
  return pointwise(Kind::kMinimum, {&a, &b});
}
Tile operator<(const Operand& a, const Operand& b) {
  return pointwise(Kind::kLess, {&a, &b});
}
Tile operator<=(const Operand& a, const Operand& b) {
  return pointwise(Kind::kLessEqual, {&a, &b});
}
Tile operator>(const Operand& a, const Operand& b) {
  return pointwise(Kind::kGreater, {&a, &b});
}
Tile operator>=(const Operand& a, const Operand& b) {
  return pointwise(Kind::kGreaterEqual, {&a, &b});
}
Tile equal(const Operand& a, const Operand& b) {
  return pointwise(Kind::kEqual, {&a, &b});
}
Tile not_equal(const Operand& a, const Operand& b) {
  return pointwise(Kind::kNotEqual, {&a, &b});
}
Tile where(const Operand& condition, const Operand& a, const Operand& b) {
  return pointwise(Kind::kWhere, {&condition, &a, &b});
}
Tile sum(const Operand& a, int axis) {
  return reduce(Kind::kSum, a, axis);
}
Tile max(const Operand& a, int axis) {
  return reduce(Kind::kMaxOver, a, axis);
}

Tile cast(const Operand& a, Element to) {
  Tracer& tracer = Tracer::current("cast", a.where);
  ir::Op op = make(Kind::kCast, a.where);
  op.operands = {tracer.operand(a).id()};
  op.type.element = to;
  return tracer.add(std::move(op));
}

void loop(const Index& count, const std::function<void(Index)>& body, Where where) {
  Tracer::current("loop", where).loop(Kind::kLoop, count, body, to_location(where));
}

void parallel_loop(const Index& count, const std::function<void(Index)>& body, Where where) {
  Tracer::current("parallel_loop", where).loop(Kind::kParallel, count, body, to_location(where));
}

void loop_unroll(const Index& count, std::vector<int> factors,
                 const std::function<void(Index, int)>& body, Where where) {
  Tracer::current("loop_unroll", where).unroll(count, factors, body, to_location(where));
}

}  // namespace tessera::tile
