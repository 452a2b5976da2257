// The intermediate representation: one kernel as data.
//
// A kernel passes through two forms, built of the same parts and printed by the same printer.
//
// Tile form, as traced: operations on tiles. Every value is a tile with an element type, a static
// shape and a valid shape (how much of it is real: index expressions). Memory is read by `view` and
// written by `assemble`; `loop` and `unroll` hold blocks.
//
// Point form, after the pass `fold`: statements over iteration variables. `nest` computes one point
// for every value of its variables, reading and writing memory by index expressions (`load`,
// `store`); with reducing variables it ends in `accumulate`. `contract` is a matmul: two loads that
// name its operands, then nests that take the sums (`acc`). The pass `phases` adds `phase`
// (everything in it may run at the same time; a barrier follows) and `tasks` (what is shared out to
// threads).
//
// Nothing here knows a CPU: no vector widths, no registers, no instruction sets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/tile_element.h>

#include "tile/ir/index_expr.h"

namespace tessera::tile::ir {

// A dynamic dimension: a number known when the kernel is called, within bounds known when it's
// compiled.
struct Symbol {
  std::string name;
  std::int64_t low = 1;
  std::int64_t high = -1;  // -1: no bound
};

enum class MemoryKind : std::uint8_t {
  kIn,       // argument, read
  kOut,      // argument, written
  kInOut,    // argument, read and overwritten in place
  kLocal,    // the kernel's own tensor, declared by its author: assembled, then viewed
  kScratch,  // the same, made by a pass: lives across phases
  kTemp,     // made by a pass: lives within a task
};

// Row-major, unless panels: then a weight [n, k] in the packed layout of its element type.
struct Memory {
  MemoryKind kind = MemoryKind::kIn;
  std::string name;
  Element element = Element::kF32;
  bool panels = false;
  std::vector<IndexExpr> dims;
  // Elements from one index to the next, for every dim; empty: dense. Arguments alone may have
  // gaps.
  std::vector<IndexExpr> strides;
  bool placed = false;  // by the pass `scratch`
  IndexExpr offset;     // bytes, where placed
  Location location;
};

// Every element of an int32 tensor must lie in [0, limit): checked before each run.
struct Limit {
  std::string memory;
  IndexExpr limit;
};

struct Option {
  std::string name;
  std::vector<std::int64_t> values;
};

// The type of a tile. Points have an empty shape.
struct Type {
  Element element = Element::kF32;
  std::vector<std::int64_t> shape;
  std::vector<IndexExpr> valid;  // as long as shape

  static Type full(Element element, std::vector<std::int64_t> shape);
  std::int64_t elements() const;
  bool fully_valid() const;
  bool fully_valid(std::size_t dim) const { return valid[dim] == IndexExpr(shape[dim]); }
  bool operator==(const Type& other) const = default;
};

enum class Kind : std::uint8_t {
  // Tile form
  kView,       // memory[index]
  kWeight,     // memory: a packed weight as a matmul operand
  kReshape,    // shape in the type
  kTranspose,  // perm
  kExpand,
  kConcat,    // axis
  kSlice,     // at
  kMatmul,    // flags: 1 a transposed, 2 b transposed
  kSum,       // axis
  kMaxOver,   // axis
  kAssemble,  // operand, memory[index] step [...]: without axes in index, offsets of a box
  kScatter,   // operand, memory[index in terms of the tile's axes @0, @1 ...]
  kLoop,
  kParallel,
  kUnroll,  // one block per factor
  // Tile and point form
  kConst,
  kNeg,
  kExp,
  kSqrt,
  kRsqrt,
  kSigmoid,
  kCast,
  kAdd,
  kSub,
  kMul,
  kDivide,
  kMaximum,
  kMinimum,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kWhere,
  // Point form
  kLoad,
  kStore,
  kAccumulateSum,
  kAccumulateMax,
  kAcc,  // the sum of a contract at [row, column]
  kNest,
  kContract,  // blocks: operands, sinks; once shared out: [first column] and how many
  kPhase,
  kTasks,
};

// An iteration variable, from 0 to extent - 1.
struct Var {
  std::string name;
  IndexExpr extent;
  bool reduces = false;
};

struct Op;
using Block = std::vector<Op>;

struct Op {
  Kind kind = Kind::kConst;
  int result = -1;
  Type type;
  std::vector<int> operands;
  std::string memory;
  std::vector<IndexExpr> index;
  std::vector<std::int64_t> ints;  // axis, perm, at, step, flags, factors or chunk: see the kind
  double number = 0;               // kConst
  std::vector<Var> vars;           // statements
  std::vector<Block> blocks;
  Location location;
};

struct Kernel {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Memory> memories;  // arguments first, in their order
  std::vector<Limit> limits;
  std::vector<Option> options;
  Block body;

  const Memory* find_memory(std::string_view name) const;
  Memory* find_memory(std::string_view name);
  const Option* find_option(std::string_view name) const;
  Ranges symbol_ranges() const;
};

// What is printed for a kind, and what it must carry.
struct KindInfo {
  Kind kind;
  std::string_view name;
  int operands;  // -1: one or more
  bool result;
  bool memory;
  bool index;
  std::string_view ints;  // the keyword before the list, empty: none
  int vars;               // 0: none, 1: exactly one, -1: any number
  int blocks;             // -1: as many as ints
};
const KindInfo& info(Kind kind);
const KindInfo* find_kind(std::string_view name);

inline std::string_view to_string(Kind kind) {
  return info(kind).name;
}
bool is_unary(Kind kind);   // one float in, one float out
bool is_binary(Kind kind);  // arithmetic on two
bool is_comparison(Kind kind);
bool is_pointwise(Kind kind);  // any of these, kCast, kWhere or kConst
std::string_view to_string(MemoryKind kind);
bool is_argument(MemoryKind kind);

// Ranges of the symbols and of the variables in scope, for simplify().
void add_ranges(const std::vector<Var>& vars, Ranges& ranges);

// The name of dim d of the stored tile, in the index of a scatter.
std::string axis_name(std::size_t d);

// The symbol that holds the stride of an argument's dim d: "x@0". No name of a kernel has an @.
std::string stride_name(std::string_view memory, std::size_t d);

std::string shape_text(const std::vector<std::int64_t>& shape);
std::string shape_text(const std::vector<IndexExpr>& shape);

}  // namespace tessera::tile::ir
