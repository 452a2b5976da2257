#include "tile/trace/tracer.h"

#include <algorithm>
#include <cmath>

#include "tile/ir/fail.h"
#include "tile/ir/infer.h"
#include "tile/ir/print.h"
#include "tile/ir/verify.h"

namespace tessera::tile {

using ir::IndexExpr;
using ir::Kind;

namespace {

thread_local Tracer* current_tracer = nullptr;

// A tile is at most this many elements: more than any target's near memory, and a bound on what a
// mistaken shape can cost.
constexpr std::int64_t kMaxTileElements = std::int64_t{1} << 22;

}  // namespace

Location to_location(const Where& where) {
  std::string file = where.file_name();
  // The name alone: the same kernel built in two folders is the same kernel.
  const std::size_t slash = file.find_last_of('/');
  if (slash != std::string::npos) file.erase(0, slash + 1);
  return {file, static_cast<int>(where.line())};
}

Tracer::Tracer(std::string name) : outer_(current_tracer), written_(loops_) {
  kernel_.name = std::move(name);
  blocks_.push_back(&kernel_.body);
  current_tracer = this;
}

Tracer::~Tracer() {
  current_tracer = outer_;
}

Tracer& Tracer::current(std::string_view what, const Where& where) {
  if (current_tracer == nullptr) {
    fail_at(code::kOutsideKernel, to_location(where), "{} outside of a kernel that is being traced",
            what);
  }
  return *current_tracer;
}

void Tracer::add_symbol(ir::Symbol symbol) {
  names_[symbol.name] = 1;
  kernel_.symbols.push_back(std::move(symbol));
  loops_.symbols = kernel_.symbol_ranges();
}

Tensor Tracer::add_memory(ir::Memory memory) {
  if (kernel_.find_memory(memory.name) != nullptr || names_.contains(memory.name)) {
    fail_at(code::kBadSignature, memory.location, "the name {} is used twice in kernel {}",
            memory.name, kernel_.name);
  }
  Indices dims;
  for (const IndexExpr& dim : memory.dims) dims.emplace_back(dim);
  Tensor tensor(memory.name, memory.element, std::move(dims), memory.panels);
  kernel_.memories.push_back(std::move(memory));
  return tensor;
}

const ir::Memory& Tracer::memory(const Tensor& tensor, const Location& location) const {
  const ir::Memory* memory = kernel_.find_memory(tensor.name());
  if (memory == nullptr) {
    fail_at(code::kOutsideKernel, location, "tensor {} belongs to another kernel", tensor.name());
  }
  return *memory;
}

std::string Tracer::new_name(const std::string& stem) {
  const int n = names_[stem]++;
  return n == 0 ? stem : stem + std::to_string(n);
}

std::vector<std::int64_t> Tracer::fixed_shape(const Indices& shape, std::string_view what,
                                              const Location& location) const {
  std::vector<std::int64_t> fixed;
  for (const Index& extent : shape) {
    if (!extent.expression().is_constant()) {
      std::string all;
      for (const Index& e : shape) all += (all.empty() ? "" : ", ") + e.to_string();
      fail_at(code::kDynamicDim, location,
              "{}: the shape [{}] of a tile must be fixed, but {} is dynamic; loop over it", what,
              all, extent.to_string());
    }
    const std::int64_t value = extent.expression().constant();
    if (value < 1) {
      fail_at(code::kUnsupportedShape, location, "{}: extent {} is not positive", what, value);
    }
    fixed.push_back(value);
  }
  return fixed;
}

ir::Op& Tracer::push(ir::Op op) {
  for (int operand : op.operands) used_[static_cast<std::size_t>(operand)] = true;
  blocks_.back()->push_back(std::move(op));
  return blocks_.back()->back();
}

void Tracer::check_size(const ir::Op& op) const {
  if (op.type.elements() > kMaxTileElements && op.kind != Kind::kWeight) {
    fail_at(code::kTileTooLarge, op.location,
            "{}: a tile of {} has {} elements, more than {}; loop over it", to_string(op.kind),
            ir::shape_text(op.type.shape), op.type.elements(), kMaxTileElements);
  }
}

Tile Tracer::add(ir::Op op) {
  std::vector<const ir::Op*> operands;
  for (int operand : op.operands) operands.push_back(&values_[static_cast<std::size_t>(operand)]);
  const ir::Memory* memory = op.memory.empty() ? nullptr : kernel_.find_memory(op.memory);
  op.type = infer(op, operands, memory);
  check_size(op);
  op.result = static_cast<int>(values_.size());
  values_.push_back(op);
  used_.push_back(false);
  const int id = push(std::move(op)).result;
  return Tile(id);
}

Tile Tracer::operand(const Operand& operand) {
  if (operand.tile) {
    if (operand.tile->id() < 0 || operand.tile->id() >= static_cast<int>(values_.size())) {
      fail_at(code::kOutsideKernel, to_location(operand.where), "a tile of another kernel");
    }
    return *operand.tile;
  }
  ir::Op op;
  op.kind = Kind::kConst;
  op.number = operand.number;
  op.location = to_location(operand.where);
  return add(std::move(op));
}

void Tracer::check_bounds(const ir::Op& op, const ir::Memory& memory,
                          const std::vector<IndexExpr>& low, const std::vector<IndexExpr>& span) {
  for (std::size_t d = 0; d < low.size(); ++d) {
    const IndexExpr& dim = memory.dims[d];
    const bool by_element =
        std::any_of(low[d].terms().begin(), low[d].terms().end(),
                    [](const auto& term) { return term.atom->kind == ir::Atom::Kind::kElement; });
    bool fits = false;
    if (by_element) {
      // One element of an index tensor and a constant: checked against its limit before every run.
      const IndexExpr::Term& term = low[d].terms()[0];
      fits = low[d].terms().size() == 1 && term.coefficient == 1 && low[d].constant() >= 0;
      if (fits) {
        ir::Limit limit{term.atom->name, dim - span[d] - low[d].constant() + 1};
        const auto known = std::find_if(
            kernel_.limits.begin(), kernel_.limits.end(),
            [&](const ir::Limit& l) { return l.memory == limit.memory && l.limit == limit.limit; });
        if (known == kernel_.limits.end()) kernel_.limits.push_back(std::move(limit));
      }
    } else {
      fits = loops_.never_negative(low[d]) && loops_.less_equal(low[d] + span[d], dim);
    }
    if (fits) continue;
    fail_at(code::kOutOfBounds, op.location,
            "{} of {}{}: elements {} to {} of dim {} are not shown to lie in it{}",
            to_string(op.kind), memory.name, shape_text(memory.dims), low[d].to_string(),
            (low[d] + span[d] - 1).to_string(), d,
            low[d].terms().empty() ? "" : " for every value of what they depend on");
  }
}

namespace {

Box box_of(const ir::Op& op, const ir::Type& type) {
  Box box;
  box.memory = op.memory;
  box.location = op.location;
  for (std::size_t d = 0; d < op.index.size(); ++d) {
    const std::int64_t step = op.ints.empty() || type.shape[d] == 1 ? 1 : op.ints[d];
    box.spans.push_back({op.index[d], type.valid[d], step});
  }
  return box;
}

void check_steps(const ir::Op& op) {
  for (std::int64_t step : op.ints) {
    if (step < 1)
      fail_at(code::kUnsupportedShape, op.location, "{}: step {}", to_string(op.kind), step);
  }
}

}  // namespace

Tile Tracer::view(ir::Op op) {
  const ir::Memory& memory = *kernel_.find_memory(op.memory);
  op.type = infer(op, {}, &memory);
  check_steps(op);
  const Box box = box_of(op, op.type);
  std::vector<IndexExpr> low;
  std::vector<IndexExpr> span;
  for (std::size_t d = 0; d < box.spans.size(); ++d) {
    low.push_back(box.spans[d].low);
    span.push_back((box.spans[d].count - 1) * box.spans[d].step + 1);
    if (!loops_.less_equal(op.type.valid[d], op.type.shape[d]) ||
        !loops_.never_negative(op.type.valid[d] - 1)) {
      fail_at(code::kOutOfBounds, op.location,
              "view of {}: the valid extent {} of dim {} is not shown to lie between 1 and {}",
              memory.name, op.type.valid[d].to_string(), d, op.type.shape[d]);
    }
  }
  check_bounds(op, memory, low, span);
  if (memory.kind == ir::MemoryKind::kInOut) {
    written_.read_in_place(box, op, memory);
  } else if (memory.kind != ir::MemoryKind::kIn) {
    written_.read(box, op, memory);
  }
  return add(std::move(op));
}

void Tracer::store(ir::Op op) {
  const ir::Memory& memory = *kernel_.find_memory(op.memory);
  const ir::Type& type = values_[static_cast<std::size_t>(op.operands[0])].type;
  const std::string_view what = op.kind == Kind::kScatter ? "assemble_at" : "assemble";
  if (memory.kind == ir::MemoryKind::kIn) {
    fail_at(code::kReadOnly, op.location, "{}: {} is an input", what, memory.name);
  }
  const bool both_float = is_float(type.element) && is_float(memory.element);
  if (!both_float && type.element != memory.element) {
    fail_at(code::kDtypeMismatch, op.location, "{} of a {} tile into {} of {}: cast it", what,
            to_string(type.element), memory.name, to_string(memory.element));
  }
  const std::size_t rank = memory.dims.size();
  const bool scatters = op.kind == Kind::kScatter;
  if (op.index.size() != rank || (!scatters && type.shape.size() != rank) ||
      (!op.ints.empty() && op.ints.size() != rank)) {
    fail_at(code::kUnsupportedShape, op.location, "{} of {} into {}{} at {}: the ranks differ",
            what, print(type), memory.name, shape_text(memory.dims), shape_text(op.index));
  }
  check_steps(op);
  std::vector<IndexExpr> low;
  std::vector<IndexExpr> span;
  if (scatters) {
    // The axes are variables of their own, up to the tile's valid extents.
    const std::size_t open = loops_.open.size();
    for (std::size_t d = 0; d < type.valid.size(); ++d) {
      loops_.open.push_back({ir::axis_name(d), type.valid[d], 1});
    }
    check_bounds(op, memory, op.index, std::vector<IndexExpr>(rank, 1));
    loops_.open.resize(open);
    written_.scatter(op, memory, type.valid);
  } else {
    Box box = box_of(op, type);
    for (const Span& s : box.spans) {
      low.push_back(s.low);
      span.push_back((s.count - 1) * s.step + 1);
    }
    check_bounds(op, memory, low, span);
    written_.store(std::move(box), op, memory);
  }
  push(std::move(op));
}

void Tracer::loop(Kind kind, const Index& count, const std::function<void(Index)>& body,
                  const Location& location) {
  ir::Op op;
  op.kind = kind;
  op.location = location;
  op.vars.push_back({new_name("i"), count.expression()});
  op.blocks.resize(1);
  const LoopVar var{op.vars[0].name, op.vars[0].extent, 1};
  if (!loops_.never_negative(var.extent)) {
    fail_at(code::kOutOfBounds, location, "loop: the count {} may be negative", count.to_string());
  }
  ir::Op& placed = push(std::move(op));
  const std::size_t first = written_.size();
  loops_.open.push_back(var);
  blocks_.push_back(&placed.blocks[0]);
  body(Index(IndexExpr::name(var.name)));
  blocks_.pop_back();
  loops_.open.pop_back();
  written_.close_loop(var, first, 1);
}

void Tracer::unroll(const Index& count, const std::vector<int>& factors,
                    const std::function<void(Index, int)>& body, const Location& location) {
  ir::Op op;
  op.kind = Kind::kUnroll;
  op.location = location;
  op.vars.push_back({new_name("row"), count.expression()});
  op.ints.assign(factors.begin(), factors.end());
  op.ints.push_back(1);
  std::sort(op.ints.rbegin(), op.ints.rend());
  op.ints.erase(std::unique(op.ints.begin(), op.ints.end()), op.ints.end());
  if (op.ints.back() < 1) {
    fail_at(code::kUnsupportedShape, location, "loop_unroll: factor {} is not positive",
            op.ints.back());
  }
  if (!loops_.never_negative(op.vars[0].extent)) {
    fail_at(code::kOutOfBounds, location, "loop_unroll: the count {} may be negative",
            count.to_string());
  }
  op.blocks.resize(op.ints.size());
  ir::Op& placed = push(std::move(op));
  const std::size_t first = written_.size();
  written_.open_unroll();
  const int id = written_.unroll_id();
  const LoopVar whole{placed.vars[0].name, placed.vars[0].extent, 1};
  for (std::size_t i = 0; i < placed.ints.size(); ++i) {
    loops_.open.push_back({whole.name, whole.extent, placed.ints[i]});
    blocks_.push_back(&placed.blocks[i]);
    written_.open_branch(id, static_cast<int>(i));
    body(Index(IndexExpr::name(whole.name)), static_cast<int>(placed.ints[i]));
    written_.close_branch();
    blocks_.pop_back();
    loops_.open.pop_back();
  }
  written_.close_loop(whole, first, static_cast<int>(placed.ints.size()));
}

void Tracer::set_option(const std::string& name, std::vector<std::int64_t> values) {
  for (ir::Option& option : kernel_.options) {
    if (option.name == name) {
      option.values = std::move(values);
      return;
    }
  }
  kernel_.options.push_back({name, std::move(values)});
}

void Tracer::check_all_stored() const {
  for (std::size_t id = 0; id < values_.size(); ++id) {
    if (used_[id]) continue;
    const ir::Op& op = values_[id];
    fail_at(code::kNeverStored, op.location, "the result of {} ({}) is never stored",
            to_string(op.kind), print(op.type));
  }
  for (const ir::Memory& memory : kernel_.memories) {
    if (memory.kind == ir::MemoryKind::kIn || written_.any(memory.name)) continue;
    fail_at(code::kNeverStored, memory.location, "kernel {}: nothing is stored to {} {}",
            kernel_.name, to_string(memory.kind), memory.name);
  }
}

ir::Kernel Tracer::finish() {
  check_all_stored();
  written_.check_in_place();
  verify(kernel_, "after trace");
  return std::move(kernel_);
}

}  // namespace tessera::tile
