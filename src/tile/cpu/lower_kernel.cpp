#include "tile/cpu/lower_kernel.h"

#include <algorithm>

#include <llvm/IR/Module.h>

#include "tile/call/kernel_arguments.h"
#include "tile/cpu/code_generator.h"
#include "tile/cpu/lower_context.h"
#include "tile/ir/fail.h"
#include "tile/ir/parse.h"
#include "tile/packed/panel_layout.h"
#include "tile/passes/pipeline.h"
#include "tile/passes/scratch.h"

namespace tessera::tile::cpu {

namespace {

using ir::IndexExpr;
using ir::Op;
using llvm::Value;

class KernelLowering {
 public:
  KernelLowering(const ir::Kernel& kernel, const Target& target, llvm::LLVMContext& context)
      : kernel_(kernel),
        target_(target),
        module_(std::make_unique<llvm::Module>(kernel.name, context)),
        ir_(context),
        builder_(ir_, target) {
    prepare_module(*module_, target);
  }

  std::unique_ptr<llvm::Module> run() {
    if (kernel_.body.size() > static_cast<std::size_t>(kMaxPhases)) {
      fail_at(code::kCannotLower, {}, "kernel {} has {} phases, more than {}", kernel_.name,
              kernel_.body.size(), kMaxPhases);
    }
    plan();
    for (std::size_t p = 0; p < kernel_.body.size(); ++p) phase(p);
    return std::move(module_);
  }

 private:
  // A function of the call interface; the builder stands in its entry block.
  llvm::Function* begin_function(const std::string& name) {
    llvm::Type* pointer = ir_.getPtrTy();
    auto* type = llvm::FunctionType::get(ir_.getVoidTy(),
                                         {pointer, ir_.getInt64Ty(), ir_.getInt64Ty()}, false);
    auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, *module_);
    prepare_function(*function, target_);
    ir_.SetInsertPoint(llvm::BasicBlock::Create(ir_.getContext(), "entry", function));
    return function;
  }

  Value* field(Value* arguments, std::size_t offset) {
    return ir_.CreateAlignedLoad(
        ir_.getPtrTy(), builder_.at(arguments, static_cast<std::int64_t>(offset)), llvm::Align(8));
  }

  void define_symbols(LowerContext& context, Value* arguments) {
    Value* symbols = field(arguments, offsetof(KernelArguments, symbols));
    std::int64_t at = 0;
    for (const ir::Symbol& symbol : kernel_.symbols) {
      context.names[symbol.name] =
          ir_.CreateAlignedLoad(ir_.getInt64Ty(), builder_.at(symbols, 8 * at++), llvm::Align(8));
    }
  }

  void define_memories(LowerContext& context, Value* arguments) {
    Value* tensors = field(arguments, offsetof(KernelArguments, tensors));
    Value* scratch = field(arguments, offsetof(KernelArguments, scratch));
    const std::int64_t task_bytes = passes::task_scratch_bytes(kernel_);
    Value* task = task_bytes > 0 ? context.stack(task_bytes) : nullptr;
    std::int64_t at = 0;
    for (const ir::Memory& memory : kernel_.memories) {
      Value*& base = context.base[memory.name];
      switch (memory.kind) {
        case ir::MemoryKind::kIn:
        case ir::MemoryKind::kOut:
        case ir::MemoryKind::kInOut:
          base =
              ir_.CreateAlignedLoad(ir_.getPtrTy(), builder_.at(tensors, 8 * at++), llvm::Align(8));
          break;
        case ir::MemoryKind::kTemp:
          if (memory.placed) base = builder_.at(task, context.eval(memory.offset));
          break;
        default:
          if (memory.placed) base = builder_.at(scratch, context.eval(memory.offset));
      }
    }
  }

  IndexExpr iterations(const Op& tasks) const {
    IndexExpr n = 1;
    for (const ir::Var& var : tasks.vars) n = n * IndexExpr::max(var.extent, 0);
    return simplify(n, kernel_.symbol_ranges());
  }

  IndexExpr task_count(const Op& tasks) const {
    const std::int64_t chunk = tasks.ints[0];
    return simplify(IndexExpr::div(iterations(tasks) + (chunk - 1), chunk),
                    kernel_.symbol_ranges());
  }

  // An extent as the plan can know it: what depends on more than the symbols counts as its largest.
  IndexExpr known_extent(const IndexExpr& extent) const {
    bool known = true;
    extent.visit_atoms([&](const ir::Atom& atom) {
      const bool symbol =
          atom.kind == ir::Atom::Kind::kName &&
          std::ranges::find(kernel_.symbols, atom.name, &ir::Symbol::name) != kernel_.symbols.end();
      known =
          known &&
          (symbol || (atom.kind != ir::Atom::Kind::kName && atom.kind != ir::Atom::Kind::kElement));
    });
    constexpr std::int64_t kGuess = 64;
    if (known) return IndexExpr::max(extent, 0);
    return range_of(extent, kernel_.symbol_ranges()).high.value_or(kGuess);
  }

  // Points of nests, and multiply-adds of one panel of a product.
  IndexExpr work_of(const ir::Block& block) const {
    IndexExpr total = 0;
    for (const Op& op : block) {
      IndexExpr points = 1;
      for (const ir::Var& var : op.vars) points = points * known_extent(var.extent);
      if (op.kind == ir::Kind::kLoop) points = points * work_of(op.blocks[0]);
      if (op.kind == ir::Kind::kContract) {
        points = known_extent(op.vars[0].extent) * known_extent(op.vars[2].extent) * kPanelColumns;
      }
      total = total + points;
    }
    return total;
  }

  void plan() {
    llvm::Function* function = begin_function("plan");
    LowerContext context(builder_, kernel_, function);
    Value* arguments = function->getArg(0);
    define_symbols(context, arguments);
    Value* plan = field(arguments, offsetof(KernelArguments, plan));
    const auto set = [&](std::int64_t slot, const IndexExpr& value) {
      ir_.CreateAlignedStore(context.eval(value), builder_.at(plan, 8 * slot), llvm::Align(8));
    };
    set(kPlanPhases, static_cast<std::int64_t>(kernel_.body.size()));
    set(kPlanScratch, passes::call_scratch_bytes(kernel_));
    for (std::size_t p = 0; p < kernel_.body.size(); ++p) {
      IndexExpr n = 0;
      IndexExpr work = 0;
      for (const Op& tasks : kernel_.body[p].blocks[0]) {
        n = n + task_count(tasks);
        work = work + iterations(tasks) * work_of(tasks.blocks[0]);
      }
      set(kPlanTasks + static_cast<std::int64_t>(p), n);
      set(kPlanWork + static_cast<std::int64_t>(p), simplify(work, kernel_.symbol_ranges()));
    }
    ir_.CreateRetVoid();
  }

  void phase(std::size_t p) {
    llvm::Function* function = begin_function(fmt::format("phase{}", p));
    LowerContext context(builder_, kernel_, function);
    Value* arguments = function->getArg(0);
    define_symbols(context, arguments);
    define_memories(context, arguments);
    IndexExpr base = 0;
    const std::vector<Op>& sections = kernel_.body[p].blocks[0];
    for (const Op& tasks : sections) {
      const IndexExpr n = task_count(tasks);
      section(context, tasks, function->getArg(1), function->getArg(2), base, n);
      base = base + n;
    }
    ir_.CreateRetVoid();
  }

  // The tasks of this section that are in [begin, end): they have the numbers base ... base + n
  // - 1.
  void section(LowerContext& context, const Op& tasks, Value* begin, Value* end,
               const IndexExpr& base, const IndexExpr& n) {
    const auto smaller = [&](Value* a, Value* b) {
      return ir_.CreateSelect(ir_.CreateICmpSLT(a, b), a, b);
    };
    const auto larger = [&](Value* a, Value* b) {
      return ir_.CreateSelect(ir_.CreateICmpSGT(a, b), a, b);
    };
    Value* chunk = context.number(tasks.ints[0]);
    Value* first = larger(ir_.CreateSub(begin, context.eval(base)), context.number(0));
    Value* last = smaller(ir_.CreateSub(end, context.eval(base)), context.eval(n));
    Value* from = ir_.CreateMul(first, chunk);
    Value* to = smaller(ir_.CreateMul(last, chunk), context.eval(iterations(tasks)));
    emit_loop(ir_, from, to, 1,
              [&](Value* iteration) { one(context, tasks, iteration, tasks.vars.size()); });
  }

  // The variables of the section from the number of the iteration, the last one fastest.
  void one(LowerContext& context, const Op& tasks, Value* rest, std::size_t left) {
    if (left == 0) return lower_block(context, tasks.blocks[0]);
    const ir::Var& var = tasks.vars[left - 1];
    if (left == 1) {
      return context.with(var, rest, [&] { one(context, tasks, rest, 0); });
    }
    Value* extent = context.eval(var.extent);
    Value* value = ir_.CreateURem(rest, extent);
    Value* next = ir_.CreateUDiv(rest, extent);
    context.with(var, value, [&] { one(context, tasks, next, left - 1); });
  }

  const ir::Kernel& kernel_;
  const Target& target_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> ir_;
  VectorBuilder builder_;
};

}  // namespace

std::unique_ptr<llvm::Module> lower_tile_text(std::string_view text, std::string_view,
                                              const Target& target, llvm::LLVMContext& context) {
  ir::Kernel kernel = ir::parse(text);
  run_passes(kernel);
  return KernelLowering(kernel, target, context).run();
}

}  // namespace tessera::tile::cpu
