#include "tile/ir/kernel.h"

#include <algorithm>

#include <fmt/format.h>

namespace tessera::tile::ir {

namespace {

constexpr KindInfo kKinds[] = {
    {Kind::kView, "view", 0, true, true, true, "step", 0, 0},
    {Kind::kWeight, "weight", 0, true, true, false, "", 0, 0},
    {Kind::kReshape, "reshape", 1, true, false, false, "", 0, 0},
    {Kind::kTranspose, "transpose", 1, true, false, false, "perm", 0, 0},
    {Kind::kExpand, "expand", 1, true, false, false, "", 0, 0},
    {Kind::kConcat, "concat", -1, true, false, false, "axis", 0, 0},
    {Kind::kSlice, "slice", 1, true, false, false, "at", 0, 0},
    {Kind::kMatmul, "matmul", 2, true, false, false, "trans", 0, 0},
    {Kind::kSum, "sum", 1, true, false, false, "axis", 0, 0},
    {Kind::kMaxOver, "max", 1, true, false, false, "axis", 0, 0},
    {Kind::kAssemble, "assemble", 1, false, true, true, "step", 0, 0},
    {Kind::kScatter, "scatter", 1, false, true, true, "", 0, 0},
    {Kind::kLoop, "loop", 0, false, false, false, "", 1, 1},
    {Kind::kParallel, "parallel", 0, false, false, false, "", 1, 1},
    {Kind::kUnroll, "unroll", 0, false, false, false, "by", 1, -1},
    {Kind::kConst, "const", 0, true, false, false, "", 0, 0},
    {Kind::kNeg, "neg", 1, true, false, false, "", 0, 0},
    {Kind::kExp, "exp", 1, true, false, false, "", 0, 0},
    {Kind::kSqrt, "sqrt", 1, true, false, false, "", 0, 0},
    {Kind::kRsqrt, "rsqrt", 1, true, false, false, "", 0, 0},
    {Kind::kSigmoid, "sigmoid", 1, true, false, false, "", 0, 0},
    {Kind::kCast, "cast", 1, true, false, false, "", 0, 0},
    {Kind::kAdd, "add", 2, true, false, false, "", 0, 0},
    {Kind::kSub, "sub", 2, true, false, false, "", 0, 0},
    {Kind::kMul, "mul", 2, true, false, false, "", 0, 0},
    {Kind::kDivide, "divide", 2, true, false, false, "", 0, 0},
    {Kind::kMaximum, "maximum", 2, true, false, false, "", 0, 0},
    {Kind::kMinimum, "minimum", 2, true, false, false, "", 0, 0},
    {Kind::kLess, "lt", 2, true, false, false, "", 0, 0},
    {Kind::kLessEqual, "le", 2, true, false, false, "", 0, 0},
    {Kind::kGreater, "gt", 2, true, false, false, "", 0, 0},
    {Kind::kGreaterEqual, "ge", 2, true, false, false, "", 0, 0},
    {Kind::kEqual, "eq", 2, true, false, false, "", 0, 0},
    {Kind::kNotEqual, "ne", 2, true, false, false, "", 0, 0},
    {Kind::kWhere, "where", 3, true, false, false, "", 0, 0},
    {Kind::kLoad, "load", 0, true, true, true, "", 0, 0},
    {Kind::kStore, "store", 1, false, true, true, "", 0, 0},
    {Kind::kAccumulateSum, "accumulate_sum", 1, false, true, true, "", 0, 0},
    {Kind::kAccumulateMax, "accumulate_max", 1, false, true, true, "", 0, 0},
    {Kind::kAcc, "acc", 0, true, false, true, "", 0, 0},
    {Kind::kNest, "nest", 0, false, false, false, "", -1, 1},
    {Kind::kContract, "contract", 0, false, false, true, "columns", -1, 2},
    {Kind::kPhase, "phase", 0, false, false, false, "", 0, 1},
    {Kind::kTasks, "tasks", 0, false, false, false, "chunk", -1, 1},
};

constexpr bool in_order() {
  int at = 0;
  for (const KindInfo& kind : kKinds) {
    if (static_cast<int>(kind.kind) != at++) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

const KindInfo& info(Kind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

const KindInfo* find_kind(std::string_view name) {
  for (const KindInfo& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

bool is_unary(Kind kind) {
  return Kind::kNeg <= kind && kind <= Kind::kSigmoid;
}
bool is_binary(Kind kind) {
  return Kind::kAdd <= kind && kind <= Kind::kMinimum;
}
bool is_comparison(Kind kind) {
  return Kind::kLess <= kind && kind <= Kind::kNotEqual;
}
bool is_pointwise(Kind kind) {
  return Kind::kConst <= kind && kind <= Kind::kWhere;
}

std::string_view to_string(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kIn:
      return "in";
    case MemoryKind::kOut:
      return "out";
    case MemoryKind::kInOut:
      return "inout";
    case MemoryKind::kLocal:
      return "local";
    case MemoryKind::kScratch:
      return "scratch";
    case MemoryKind::kTemp:
      return "temp";
  }
  return "?";
}

bool is_argument(MemoryKind kind) {
  return kind == MemoryKind::kIn || kind == MemoryKind::kOut || kind == MemoryKind::kInOut;
}

Type Type::full(Element element, std::vector<std::int64_t> shape) {
  Type type;
  type.element = element;
  type.valid.assign(shape.begin(), shape.end());
  type.shape = std::move(shape);
  return type;
}

std::int64_t Type::elements() const {
  std::int64_t n = 1;
  for (std::int64_t extent : shape) {
    if (__builtin_mul_overflow(n, extent, &n)) return INT64_MAX;
  }
  return n;
}

bool Type::fully_valid() const {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!fully_valid(d)) return false;
  }
  return true;
}

const Memory* Kernel::find_memory(std::string_view wanted) const {
  const auto found = std::find_if(memories.begin(), memories.end(),
                                  [&](const Memory& m) { return m.name == wanted; });
  return found == memories.end() ? nullptr : &*found;
}

Memory* Kernel::find_memory(std::string_view wanted) {
  return const_cast<Memory*>(static_cast<const Kernel*>(this)->find_memory(wanted));
}

const Option* Kernel::find_option(std::string_view wanted) const {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const Option& o) { return o.name == wanted; });
  return found == options.end() ? nullptr : &*found;
}

Ranges Kernel::symbol_ranges() const {
  Ranges ranges;
  for (const Symbol& symbol : symbols) {
    Range& range = ranges[symbol.name];
    range.low = symbol.low;
    if (symbol.high >= 0) range.high = symbol.high;
  }
  return ranges;
}

void add_ranges(const std::vector<Var>& vars, Ranges& ranges) {
  for (const Var& var : vars) {
    const Range extent = range_of(var.extent, ranges);
    Range range{0, std::nullopt};
    if (extent.high) range.high = *extent.high - 1;
    ranges[var.name] = range;
  }
}

std::string axis_name(std::size_t d) {
  return fmt::format("@{}", d);
}

std::string stride_name(std::string_view memory, std::size_t d) {
  return fmt::format("{}@{}", memory, d);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape_text(std::vector<IndexExpr>(shape.begin(), shape.end()));
}

std::string shape_text(const std::vector<IndexExpr>& shape) {
  std::string text = "[";
  for (const IndexExpr& extent : shape) {
    if (text.size() > 1) text += ", ";
    text += extent.to_string();
  }
  return text + "]";
}

}  // namespace tessera::tile::ir
