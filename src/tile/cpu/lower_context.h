// What every part of the lowering of one function needs: the kernel, the values of names,
// addresses.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tile/cpu/loop_builder.h"
#include "tile/cpu/vector_builder.h"
#include "tile/ir/kernel.h"

namespace tessera::tile::cpu {

// The element type as the vector builder names it.
cpu::Element storage(tile::Element element);

// Names and what they are; copies are cheap enough (a handful of entries).
using Names = std::map<std::string, llvm::Value*>;

class LowerContext {
 public:
  LowerContext(VectorBuilder& builder, const ir::Kernel& kernel, llvm::Function* function)
      : b(builder), kernel(kernel), function(function), ranges(kernel.symbol_ranges()) {}

  VectorBuilder& b;
  const ir::Kernel& kernel;
  llvm::Function* function;
  Names names;                               // symbols and variables in scope: i64
  std::map<std::string, llvm::Value*> base;  // address of each memory
  ir::Ranges ranges;                         // of the names in scope

  llvm::IRBuilder<>& ir() { return b.ir(); }
  llvm::Value* number(std::int64_t value) {
    return ir().getInt64(static_cast<std::uint64_t>(value));
  }
  llvm::Value* eval(const ir::IndexExpr& index);

  // The element's distance from the start of its memory, in elements.
  ir::IndexExpr offset_of(const ir::Op& access) const;
  llvm::Value* address(const ir::Op& access) { return address(access, offset_of(access)); }
  llvm::Value* address(const ir::Op& access, const ir::IndexExpr& offset);

  // Runs emit with more names defined.
  template <typename F>
  void with(const ir::Var& var, llvm::Value* value, F&& emit) {
    names[var.name] = value;
    ir::add_ranges({var}, ranges);
    emit();
    names.erase(var.name);
    ranges.erase(var.name);
  }
  // for (var = 0; var < extent; ++var) emit().
  template <typename F>
  void loop(const ir::Var& var, F&& emit) {
    emit_loop(ir(), number(0), eval(var.extent), 1,
              [&](llvm::Value* index) { with(var, index, emit); });
  }
  // if (condition) emit().
  template <typename F>
  void when(llvm::Value* condition, F&& emit) {
    auto* then = llvm::BasicBlock::Create(ir().getContext(), "then", function);
    auto* after = llvm::BasicBlock::Create(ir().getContext(), "after", function);
    ir().CreateCondBr(condition, then, after);
    ir().SetInsertPoint(then);
    emit();
    ir().CreateBr(after);
    ir().SetInsertPoint(after);
  }
  // Stack memory, taken once per call of the function.
  llvm::Value* stack(std::int64_t bytes);
  // The same for a pointer, null at the function's start.
  llvm::Value* stack_pointer();
};

// Statements: each is emitted at the builder's place.
void lower_nest(LowerContext& context, const ir::Op& nest);
void lower_contract(LowerContext& context, const ir::Op& contract);
// Loops, nests and contracts.
void lower_block(LowerContext& context, const ir::Block& block);

}  // namespace tessera::tile::cpu
