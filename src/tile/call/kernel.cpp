// Calling a kernel: from arguments to its shape class, from there to code, and running it.
#include <algorithm>
#include <atomic>
#include <mutex>

#include <tessera/tile.h>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "tile/call/kernel_arguments.h"
#include "tile/call/shape_class.h"
#include "tile/call/shared_cache.h"
#include "tile/ir/fail.h"
#include "tile/ir/print.h"
#include "tile/jit/compiler.h"
#include "tile/passes/pipeline.h"
#include "tile/trace/tracer.h"

namespace tessera::tile {

namespace {

// Code for one shape class.
struct ClassCode {
  Binding binding;  // of the call that made it
  std::shared_ptr<const CompiledCode> code;
  KernelFunction* plan = nullptr;
  std::vector<KernelFunction*> phases;
  // Elements of argument `parameter` must lie in [0, limit).
  struct ElementLimit {
    std::size_t parameter;
    ir::IndexExpr limit;
  };
  std::vector<ElementLimit> limits;
  const ClassCode* next = nullptr;  // made before this one
};

// An expression in the symbols.
std::int64_t value_of(const ir::IndexExpr& expression, const Signature& signature,
                      const Binding& binding) {
  std::int64_t sum = expression.constant();
  for (const ir::IndexExpr::Term& term : expression.terms()) {
    const ir::Atom& atom = *term.atom;
    std::int64_t value = 0;
    if (atom.kind == ir::Atom::Kind::kName) {
      for (std::size_t i = 0; i < signature.dynamic.size(); ++i) {
        if (signature.dynamic[i] == atom.name) value = binding.symbols[i];
      }
    } else if (atom.kind != ir::Atom::Kind::kElement) {
      const std::int64_t a = value_of(atom.args[0], signature, binding);
      const std::int64_t b = value_of(atom.args[1], signature, binding);
      switch (atom.kind) {
        case ir::Atom::Kind::kDiv:
          value = b > 0 ? a / b : 0;
          break;
        case ir::Atom::Kind::kMod:
          value = b > 0 ? a % b : 0;
          break;
        case ir::Atom::Kind::kMin:
          value = std::min(a, b);
          break;
        case ir::Atom::Kind::kMax:
          value = std::max(a, b);
          break;
        default:
          value = a * b;
      }
    }
    sum += term.coefficient * value;
  }
  return sum;
}

// "t in 17..*, x: fp32[t, 64] with gaps, y: fp32[t, 64]".
std::string shape_class_text(const ir::Kernel& kernel) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const ir::Symbol& symbol : kernel.symbols) {
    if (symbol.name.find('@') != std::string::npos) continue;  // the stride of a tensor with gaps
    const bool one = symbol.low == symbol.high;
    add(one ? fmt::format("{} = {}", symbol.name, symbol.low)
            : fmt::format("{} in {}..{}", symbol.name, symbol.low,
                          symbol.high < 0 ? "*" : std::to_string(symbol.high)));
  }
  for (const ir::Memory& memory : kernel.memories) {
    if (!is_argument(memory.kind)) continue;
    add(fmt::format("{}: {}{}{}{}", memory.name, to_string(memory.element),
                    memory.panels ? " packed " : "", shape_text(memory.dims),
                    memory.strides.empty() ? "" : " with gaps"));
  }
  return text;
}

// Element i of an int32 tensor, counted in row-major order.
std::int32_t element_at(const Argument& argument, std::int64_t i) {
  const auto* elements = static_cast<const std::int32_t*>(argument.data);
  if (argument.dense) return elements[i];
  std::int64_t offset = 0;
  for (auto d = static_cast<std::size_t>(argument.rank); d-- > 0;) {
    offset += i % argument.dims[d] * argument.strides[d];
    i /= argument.dims[d];
  }
  return elements[offset];
}

// The calling thread's memory for what crosses phases.
std::byte* call_scratch(std::int64_t bytes) {
  thread_local Buffer buffer;
  if (buffer.size() < static_cast<std::size_t>(bytes))
    buffer = Buffer(static_cast<std::size_t>(bytes));
  return buffer.data();
}

}  // namespace

struct Kernel::State {
  State(std::string kernel_name, std::vector<Parameter> parameters, Body kernel_body,
        const Location& at)
      : name(std::move(kernel_name)),
        signature(name, std::move(parameters), at),
        body(std::move(kernel_body)),
        location(at) {}

  const std::string name;
  const Signature signature;
  const Body body;
  const Location location;

  // A list that only grows, at its head: calls walk along it without a lock.
  std::atomic<const ClassCode*> classes{nullptr};
  std::mutex mutex;  // held while it grows
  std::vector<std::unique_ptr<ClassCode>> owned;

  ir::Kernel trace(const Binding& binding) const;
  CompileRequest request(const ir::Kernel& kernel) const;
  const ClassCode* find(const Binding& binding) const;
  const ClassCode& get(const Binding& binding);
  std::unique_ptr<ClassCode> make(const Binding& binding) const;
  void check_elements(const ClassCode& code, const Binding& binding,
                      std::span<const Argument> arguments) const;
};

ir::Kernel Kernel::State::trace(const Binding& binding) const {
  Tracer tracer(name);
  for (std::size_t i = 0; i < signature.dynamic.size(); ++i) {
    tracer.add_symbol(symbol_class(signature.dynamic[i], binding.symbols[i]));
  }
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < signature.parameters.size(); ++i) {
    const Parameter& parameter = signature.parameters[i];
    ir::Memory memory;
    memory.kind = parameter.role == Parameter::Role::kOut     ? ir::MemoryKind::kOut
                  : parameter.role == Parameter::Role::kInOut ? ir::MemoryKind::kInOut
                                                              : ir::MemoryKind::kIn;
    memory.name = parameter.name;
    memory.element = binding.elements[i];
    memory.panels = parameter.role == Parameter::Role::kWeight;
    memory.location = location;
    for (const Dim& dim : parameter.dims)
      memory.dims.push_back(dim_expression(signature, dim, binding));
    if (binding.has_gaps(i)) {
      for (std::size_t d = 0; d + 1 < memory.dims.size(); ++d) {
        const std::string stride = ir::stride_name(memory.name, d);
        tracer.add_symbol({stride, 0, -1});
        memory.strides.push_back(ir::IndexExpr::name(stride));
      }
      memory.strides.emplace_back(1);
    }
    tensors.push_back(tracer.add_memory(std::move(memory)));
  }
  body(tensors);
  return tracer.finish();
}

CompileRequest Kernel::State::request(const ir::Kernel& kernel) const {
  CompileRequest request;
  request.name = name;
  request.shape_class = shape_class_text(kernel);
  request.front_end = "tile";
  request.ir = print(kernel);
  request.cpu = target_cpu_from_environment();
  return request;
}

std::unique_ptr<ClassCode> Kernel::State::make(const Binding& binding) const {
  const ir::Kernel kernel = trace(binding);
  auto made = std::make_unique<ClassCode>();
  made->binding = binding;
  try {
    made->code = shared_cache()->get(request(kernel));
  } catch (const Error&) {
    // The compiler's text has no places in it: the passes alone may find the same fault and say
    // where.
    ir::Kernel again = kernel;
    run_passes(again);
    throw;
  }
  made->plan = made->code->function<KernelFunction>("plan");
  std::int64_t plan[kPlanSize] = {};
  KernelArguments arguments;
  arguments.symbols = binding.symbols.data();
  arguments.plan = plan;
  made->plan(&arguments, 0, 0);
  for (std::int64_t p = 0; p < plan[kPlanPhases]; ++p) {
    made->phases.push_back(made->code->function<KernelFunction>(fmt::format("phase{}", p)));
  }
  for (const ir::Limit& limit : kernel.limits) {
    for (std::size_t i = 0; i < signature.parameters.size(); ++i) {
      if (signature.parameters[i].name == limit.memory) made->limits.push_back({i, limit.limit});
    }
  }
  return made;
}

const ClassCode* Kernel::State::find(const Binding& binding) const {
  for (const ClassCode* code = classes.load(std::memory_order_acquire); code != nullptr;
       code = code->next) {
    if (same_class(signature, code->binding, binding)) return code;
  }
  return nullptr;
}

const ClassCode& Kernel::State::get(const Binding& binding) {
  if (const ClassCode* known = find(binding)) return *known;
  std::unique_ptr<ClassCode> made = make(binding);
  const std::lock_guard lock(mutex);
  if (const ClassCode* known = find(binding)) return *known;  // another thread was faster
  made->next = classes.load(std::memory_order_relaxed);
  owned.push_back(std::move(made));
  classes.store(owned.back().get(), std::memory_order_release);
  return *owned.back();
}

void Kernel::State::check_elements(const ClassCode& code, const Binding& binding,
                                   std::span<const Argument> arguments) const {
  for (const ClassCode::ElementLimit& check : code.limits) {
    const Argument& argument = arguments[check.parameter];
    const std::int64_t limit = value_of(check.limit, signature, binding);
    std::int64_t n = 1;
    for (int d = 0; d < argument.rank; ++d) n *= argument.dims[static_cast<std::size_t>(d)];
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int32_t element = element_at(argument, i);
      if (0 <= element && element < limit) continue;
      fail_at(code::kBadCall, {}, "kernel {}: element {} of {} is {}, but must lie in 0 ... {}",
              name, i, signature.parameters[check.parameter].name, element, limit - 1);
    }
  }
}

Kernel::Kernel(std::string name, std::vector<Parameter> signature, Body body, Where where)
    : state_(std::make_shared<State>(std::move(name), std::move(signature), std::move(body),
                                     to_location(where))) {}

const std::string& Kernel::name() const {
  return state_->name;
}

const std::vector<Parameter>& Kernel::signature() const {
  return state_->signature.parameters;
}

void Kernel::run(ThreadPool& pool, std::span<const Argument> arguments,
                 std::int64_t min_parallel_work) const {
  State& state = *state_;
  Binding binding;
  tile::bind(state.name, state.signature, arguments, binding);
  if (binding.empty) return;
  check_data(state.name, state.signature, arguments);
  const ClassCode& code = state.get(binding);
  state.check_elements(code, binding, arguments);

  std::array<void*, kMaxParameters> tensors;
  for (std::size_t i = 0; i < arguments.size(); ++i) tensors[i] = arguments[i].data;
  std::int64_t plan[kPlanSize];
  KernelArguments call;
  call.tensors = tensors.data();
  call.symbols = binding.symbols.data();
  call.plan = plan;
  code.plan(&call, 0, 0);
  if (plan[kPlanScratch] > 0) call.scratch = call_scratch(plan[kPlanScratch]);
  for (std::size_t p = 0; p < code.phases.size(); ++p) {
    KernelFunction* phase = code.phases[p];
    const std::int64_t n_tasks = plan[kPlanTasks + static_cast<std::int64_t>(p)];
    if (pool.size() == 1 || plan[kPlanWork + static_cast<std::int64_t>(p)] < min_parallel_work) {
      phase(&call, 0, n_tasks);
    } else {
      pool.parallel_for(n_tasks, [&](std::int64_t task, int) { phase(&call, task, task + 1); });
    }
  }
}

struct BoundCall::State {
  const ClassCode* code = nullptr;  // null: a dynamic dim is 0, nothing to do
  Binding binding;
  std::array<void*, kMaxParameters> tensors;
  std::array<std::int64_t, kPlanSize> plan;
  std::byte* scratch = nullptr;

  KernelArguments arguments() const {
    KernelArguments call;
    call.tensors = tensors.data();
    call.symbols = binding.symbols.data();
    call.scratch = scratch;
    return call;
  }
};

BoundCall::BoundCall() : state_(std::make_unique<State>()) {}
BoundCall::~BoundCall() = default;
BoundCall::BoundCall(BoundCall&&) noexcept = default;
BoundCall& BoundCall::operator=(BoundCall&&) noexcept = default;

int BoundCall::n_phases() const {
  return state_->code == nullptr ? 0 : static_cast<int>(state_->code->phases.size());
}

std::int64_t BoundCall::tasks(int phase) const {
  return state_->plan[static_cast<std::size_t>(kPlanTasks + phase)];
}

std::int64_t BoundCall::work(int phase) const {
  return state_->plan[static_cast<std::size_t>(kPlanWork + phase)];
}

std::size_t BoundCall::scratch_bytes() const {
  return state_->code == nullptr ? 0 : static_cast<std::size_t>(state_->plan[kPlanScratch]);
}

void BoundCall::set_scratch(std::byte* memory) {
  state_->scratch = memory;
}

void BoundCall::run(int phase, std::int64_t begin, std::int64_t end) const {
  const KernelArguments call = state_->arguments();
  state_->code->phases[static_cast<std::size_t>(phase)](&call, begin, end);
}

void Kernel::bind(std::span<const Argument> arguments, BoundCall& call) const {
  BoundCall::State& to = *call.state_;
  tile::bind(state_->name, state_->signature, arguments, to.binding);
  to.code = nullptr;
  if (to.binding.empty) return;
  check_data(state_->name, state_->signature, arguments);
  to.code = &state_->get(to.binding);
  for (std::size_t i = 0; i < arguments.size(); ++i) to.tensors[i] = arguments[i].data;
  KernelArguments plan = to.arguments();
  plan.plan = to.plan.data();
  to.code->plan(&plan, 0, 0);
}

void Kernel::run(int n_threads, std::span<const Argument> arguments) const {
  thread_local std::unique_ptr<ThreadPool> pool;
  if (pool == nullptr || pool->size() != n_threads) pool = std::make_unique<ThreadPool>(n_threads);
  run(*pool, arguments);
}

void Kernel::prepare(std::span<const Argument> arguments) const {
  Binding binding;
  tile::bind(state_->name, state_->signature, arguments, binding);
  if (!binding.empty) state_->get(binding);
}

std::string Kernel::stage(std::string_view stage, std::span<const Argument> arguments) const {
  Binding binding;
  tile::bind(state_->name, state_->signature, arguments, binding);
  ir::Kernel kernel = state_->trace(binding);
  if (stage == "llvm" || stage == "asm") return compile_to_text(state_->request(kernel), stage);
  return text_after(std::move(kernel), stage);
}

}  // namespace tessera::tile
