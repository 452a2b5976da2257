// The tile language: kernels written in C++, traced once per shape class and compiled for the CPU
// at hand.
//
//   using namespace tessera::tile;
//   const Dim t = Dim::dynamic("t"), n = Dim::fixed("n");
//   const Kernel rms_norm = jit("rms_norm", {in("x", {t, n}), in("weight", {n}), out("y", {t, n})},
//                               [](Tensor x, Tensor weight, Tensor y) {
//     const std::int64_t n = x.size(1);
//     const Tile w = view(weight, {n}, {0});
//     loop_unroll(x.dim(0), {8, 4, 2, 1}, [&](Index row, int rows) {
//       const Tile a = view(x, {rows, n}, {row, 0});
//       const Tile mean = sum(a * a, 1) * (1.0 / n);
//       assemble(a * rsqrt(mean + 1e-6) * w, y, {row, 0});
//     });
//   });
//   rms_norm(executor, {argument(x, Element::kBF16, {rows, 2048}), ...});
//
// The body runs once for a shape class and records what it does; numbers of the class (fixed dims)
// are plain integers in it, dynamic dims are symbols. Reference and error numbers:
// docs/tile-language.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/tile_element.h>

namespace tessera {
class ThreadPool;
}

namespace tessera::tile {

namespace ir {
class IndexExpr;
struct Kernel;
}  // namespace ir
class Tracer;

// A whole number that may be known only when the kernel runs: an offset, a dim, a loop's variable.
class Index {
 public:
  Index() : Index(0) {}
  Index(std::int64_t value);  // NOLINT(google-explicit-constructor): numbers are indices
  Index(int value)
      : Index(static_cast<std::int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  explicit Index(const ir::IndexExpr& expression);

  const ir::IndexExpr& expression() const { return *expression_; }
  std::string to_string() const;

 private:
  std::shared_ptr<const ir::IndexExpr> expression_;
};

Index operator+(const Index& a, const Index& b);
Index operator-(const Index& a, const Index& b);
Index operator*(const Index& a, const Index& b);
Index operator/(const Index& a, const Index& b);  // rounds down; both must be non-negative
Index operator%(const Index& a, const Index& b);
Index min(const Index& a, const Index& b);
Index max(const Index& a, const Index& b);

// In assemble_at(): the position along dimension d of the tile that is stored.
Index axis(int d);

using Indices = std::vector<Index>;
using Where = std::source_location;

// A tensor within a kernel: an argument, or a local of the kernel.
class Tensor {
 public:
  const std::string& name() const { return name_; }
  Element element() const { return element_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  Index dim(int d) const { return dims_.at(static_cast<std::size_t>(d)); }
  // A dim that must be fixed; a dynamic one is an error (TL105).
  std::int64_t size(int d, Where where = Where::current()) const;

  // An element of an int32 argument, as an index. It is checked against the dim that it is used for
  // before every run. Where it chooses what is stored, distinct elements are the caller's promise.
  Index operator[](const Index& i) const;
  Index at(Indices indices) const;

 private:
  friend class Tracer;
  Tensor(std::string name, Element element, Indices dims, bool packed)
      : name_(std::move(name)), element_(element), dims_(std::move(dims)), packed_(packed) {}

  std::string name_;
  Element element_;
  Indices dims_;
  bool packed_;
};

// A value: a block of numbers with an element type, a static shape and a valid shape. Arithmetic on
// floating-point tiles happens in fp32 and gives fp32; storing and cast() round to nearest even.
class Tile {
 public:
  int rank() const;
  std::int64_t size(int d) const;
  std::vector<std::int64_t> shape() const;
  Indices valid_shape() const;
  Element element() const;
  int id() const { return id_; }

 private:
  friend class Tracer;
  explicit Tile(int id) : id_(id) {}
  int id_;
};

// A tile or a number as an operand, with the place it was written at.
struct Operand {
  Operand(Tile t, Where at = Where::current()) : tile(t), where(at) {}              // NOLINT
  Operand(const Tensor& packed, Where at = Where::current());                       // NOLINT
  Operand(double value, Where at = Where::current()) : number(value), where(at) {}  // NOLINT
  std::optional<Tile> tile;
  double number = 0;
  Where where;
};

// How view() and assemble() touch a tensor.
struct Access {
  Indices valid;                   // how much of the tile is real; all of it if empty
  std::vector<std::int64_t> step;  // distance of neighbours along each dim, in elements; 1 if empty
};

// --- Reading and writing ---
Tile view(const Tensor& x, Indices shape, Indices offsets, Access access = {},
          Where = Where::current());
void assemble(const Operand& value, const Tensor& to, Indices offsets, Access access = {});
// Stores element (a0, a1, ...) of the tile at to[indices], written with axis(0), axis(1), ...:
//   assemble_at(k, k_nope, {row / s, axis(1), row % s, axis(2)})  with row = first + axis(0)
void assemble_at(const Operand& value, const Tensor& to, Indices indices);
// A tensor of the kernel's own: assembled first, viewed later (across iterations only after the
// loop).
Tensor local(std::string name, Element element, Indices dims, Where = Where::current());

// --- Shape ---
Tile reshape(const Operand& a, Indices shape);
Tile transpose(const Operand& a, std::vector<int> permutation);
Tile transpose(const Operand& a);  // rank 2
Tile expand(const Operand& a, Indices shape);
Tile concat(const std::vector<Tile>& parts, int axis, Where = Where::current());
Tile slice(const Operand& a, Indices shape, std::vector<std::int64_t> offsets);
Tile full(Indices shape, double value, Where = Where::current());

// --- Products: fp32 sums in the order of the summed dim. b is a tile or a packed weight [n, k]
// (then b_trans is implied). Both must have one element type.
struct MatmulOptions {
  bool a_trans = false;
  bool b_trans = false;
  Element out = Element::kF32;
};
Tile matmul(const Operand& a, const Operand& b, MatmulOptions options = {});

// --- Pointwise; extents of 1 and missing leading dims broadcast ---
Tile operator+(const Operand& a, const Operand& b);
Tile operator-(const Operand& a, const Operand& b);
Tile operator*(const Operand& a, const Operand& b);
Tile operator/(const Operand& a, const Operand& b);
Tile operator-(const Operand& a);
Tile neg(const Operand& a);
Tile exp(const Operand& a);
Tile sqrt(const Operand& a);
Tile rsqrt(const Operand& a);
Tile sigmoid(const Operand& a);
Tile maximum(const Operand& a, const Operand& b);
Tile minimum(const Operand& a, const Operand& b);
Tile cast(const Operand& a, Element to);
Tile operator<(const Operand& a, const Operand& b);
Tile operator<=(const Operand& a, const Operand& b);
Tile operator>(const Operand& a, const Operand& b);
Tile operator>=(const Operand& a, const Operand& b);
Tile equal(const Operand& a, const Operand& b);
Tile not_equal(const Operand& a, const Operand& b);
Tile where(const Operand& condition, const Operand& a, const Operand& b);

// --- Reductions: the axis stays, with extent 1; only the valid part counts ---
Tile sum(const Operand& a, int axis);
Tile max(const Operand& a, int axis);

// --- Loops: iterations are independent of each other ---
void loop(const Index& count, const std::function<void(Index)>& body, Where = Where::current());
// As loop(), and a hint that its iterations are what threads should share.
void parallel_loop(const Index& count, const std::function<void(Index)>& body,
                   Where = Where::current());
// body(first, n) for pieces of n = factor rows, the largest factors first; 1 is added to the list:
// 17 rows with {8, 4, 2} are 8 + 8 + 1.
void loop_unroll(const Index& count, std::vector<int> factors,
                 const std::function<void(Index, int)>& body, Where = Where::current());

// --- Tuning; a kernel without any of these is right and close to its best ---
// Matmuls: rows of a block, summed elements of a step (multiple of 2), columns of a task (multiple
// of 32). 0 leaves a choice to the compiler.
void set_cube_tile_shapes(int m, int k, int n, Where = Where::current());
// Everything else: how many loop iterations make a task.
void set_vec_tile_shapes(int rows, Where = Where::current());
// By name: see docs/tile-language.md. Unknown names are refused (TL108).
void set_pass_options(std::initializer_list<std::pair<std::string_view, std::int64_t>> options,
                      Where = Where::current());

// --- Signatures ---
class Dim {
 public:
  Dim(std::int64_t number) : number_(number) {}  // NOLINT: numbers are dims
  Dim(int number) : number_(number) {}           // NOLINT: numbers are dims
  static Dim fixed(std::string name) { return Dim(std::move(name), false); }   // a number per class
  static Dim dynamic(std::string name) { return Dim(std::move(name), true); }  // a symbol
  // A product of dims; its factors must be dims of other arguments.
  friend Dim operator*(const Dim& a, const Dim& b);

  const std::string& name() const { return name_; }
  bool is_dynamic() const { return dynamic_; }
  std::int64_t number() const { return number_; }
  const std::vector<Dim>& factors() const { return factors_; }

 private:
  Dim(std::string name, bool dynamic) : name_(std::move(name)), dynamic_(dynamic) {}
  std::string name_;
  bool dynamic_ = false;
  std::int64_t number_ = 1;
  std::vector<Dim> factors_;
};

struct Parameter {
  enum class Role : std::uint8_t { kIn, kOut, kInOut, kWeight };
  Role role = Role::kIn;
  std::string name;
  std::optional<Element>
      element;  // nothing: any floating-point type, a property of the shape class
  std::vector<Dim> dims;
};

Parameter in(std::string name, std::vector<Dim> dims, std::optional<Element> element = {});
Parameter out(std::string name, std::vector<Dim> dims, std::optional<Element> element = {});
// Updated in place: what an iteration views of it, it overwrites later (TL113 where that isn't so).
Parameter inout(std::string name, std::vector<Dim> dims, std::optional<Element> element = {});
// A matrix [n, k] in packed panels (tile/packed): an operand of matmul only. Both dims fixed.
Parameter weight(std::string name, std::vector<Dim> dims, std::optional<Element> element = {});
Parameter indices(std::string name, std::vector<Dim> dims);  // int32

// --- Calls ---
inline constexpr int kMaxRank = 6;

// A row-major tensor, or a packed weight, handed to a kernel.
struct Argument {
  void* data = nullptr;
  Element element = Element::kF32;
  bool packed = false;
  bool dense = true;  // without gaps: the strides say nothing
  int rank = 0;
  std::array<std::int64_t, kMaxRank> dims{};     // rank of them
  std::array<std::int64_t, kMaxRank> strides{};  // in elements; unless dense
};
Argument argument(const void* data, Element element, std::initializer_list<std::int64_t> dims);
Argument argument(const void* data, Element element, std::span<const std::int64_t> dims);
// A tensor with gaps. strides: how many elements lie between neighbours along each dim but the
// last, whose elements are adjacent.
Argument strided_argument(const void* data, Element element,
                          std::initializer_list<std::int64_t> dims,
                          std::initializer_list<std::int64_t> strides);
Argument packed_argument(const void* panels, Element element, std::int64_t n, std::int64_t k);

// A weight [n, k] in packed panels: made once, when a model is loaded. Copies share the panels.
class PackedWeight {
 public:
  // rows: row-major and dense, fp32, bf16 or fp16. as: what the panels hold (those, or kI8 or kI4);
  // nothing: what the rows do. Throws TL301 for anything else.
  PackedWeight(const void* rows, Element element, std::int64_t n, std::int64_t k,
               std::optional<Element> as = {}, int n_threads = 1);
  Argument argument() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

using Body = std::function<void(const std::vector<Tensor>&)>;

// A kernel with its arguments, for whoever schedules its tasks himself: phase after phase, each
// complete before the next starts, the tasks of a phase in any order and on any threads. The
// arguments' memory must stay.
class BoundCall {
 public:
  BoundCall();
  ~BoundCall();
  BoundCall(BoundCall&&) noexcept;
  BoundCall& operator=(BoundCall&&) noexcept;

  int n_phases() const;
  std::int64_t tasks(int phase) const;
  std::int64_t work(int phase) const;  // points and multiply-adds of all tasks, about
  // Memory for what crosses phases, aligned to 64 bytes. set_scratch() comes before run().
  std::size_t scratch_bytes() const;
  void set_scratch(std::byte* memory);
  void run(int phase, std::int64_t begin, std::int64_t end) const;  // never throws or allocates

 private:
  friend class Kernel;
  struct State;
  std::unique_ptr<State> state_;
};

// A kernel and the code made for it so far. Copies share both. Calls from several threads are safe
// as long as each has a thread pool of its own.
class Kernel {
 public:
  Kernel() = default;
  Kernel(std::string name, std::vector<Parameter> signature, Body body, Where where);

  const std::string& name() const;
  const std::vector<Parameter>& signature() const;
  // Checks the arguments against the signature, compiles or loads what their shape class needs,
  // runs. After the first call of a class nothing is allocated.
  // A phase of less work than min_parallel_work (points and multiply-adds) stays on this thread.
  void run(ThreadPool& pool, std::span<const Argument> arguments,
           std::int64_t min_parallel_work = 0) const;
  // On threads of the calling thread's own, kept for its next call.
  void run(int n_threads, std::span<const Argument> arguments) const;
  // The same on an executor: whatever has a pool(), and may have a min_parallel_work().
  template <typename Executor>
  void operator()(Executor& executor, std::initializer_list<Argument> arguments) const {
    (*this)(executor, std::span<const Argument>(arguments.begin(), arguments.size()));
  }
  template <typename Executor>
  void operator()(Executor& executor, std::span<const Argument> arguments) const {
    if constexpr (requires { executor.min_parallel_work(); }) {
      run(executor.pool(), arguments, executor.min_parallel_work());
    } else {
      run(executor.pool(), arguments);
    }
  }
  // Checks, compiles or loads as run() does, but runs nothing. Binding a call again keeps its
  // scratch and allocates nothing where the class has code already. Indices among the arguments are
  // not checked: what they say may change before every run.
  void bind(std::span<const Argument> arguments, BoundCall& call) const;
  // Compiles or loads without running: only dims and element types of the arguments matter.
  void prepare(std::span<const Argument> arguments) const;
  // The kernel's text for the class of these arguments: "trace", the name of a pass, "llvm" or
  // "asm".
  std::string stage(std::string_view stage, std::span<const Argument> arguments) const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

namespace internal {
template <typename F>
struct Arity : Arity<decltype(&F::operator())> {};
template <typename R, typename C, typename... A>
struct Arity<R (C::*)(A...) const> {
  static constexpr std::size_t value = sizeof...(A);
};
template <typename R, typename C, typename... A>
struct Arity<R (C::*)(A...)> {
  static constexpr std::size_t value = sizeof...(A);
};
template <typename R, typename... A>
struct Arity<R (*)(A...)> {
  static constexpr std::size_t value = sizeof...(A);
};
[[noreturn]] void wrong_arity(const std::string& name, std::size_t parameters, std::size_t arity,
                              const Where& where);
}  // namespace internal

// A kernel from a body that takes one Tensor per parameter.
template <typename F>
Kernel jit(std::string name, std::vector<Parameter> signature, F body,
           Where where = Where::current()) {
  constexpr std::size_t arity = internal::Arity<F>::value;
  if (signature.size() != arity) internal::wrong_arity(name, signature.size(), arity, where);
  Body call = [body](const std::vector<Tensor>& tensors) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      body(tensors[I]...);
    }(std::make_index_sequence<arity>());
  };
  return Kernel(std::move(name), std::move(signature), std::move(call), where);
}

}  // namespace tessera::tile
