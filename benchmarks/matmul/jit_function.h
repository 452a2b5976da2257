// A function emitted for this machine.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "tile/cpu/code_generator.h"
#include "tile/cpu/target.h"
#include "tile/cpu/vector_builder.h"
#include "tile/jit/compiled_code.h"

namespace tessera::benchmarks {

// Arguments: n_pointers pointers, then n_numbers i64.
inline std::unique_ptr<tile::CompiledCode> emit_function(
    const tile::cpu::Target& target, unsigned n_pointers, unsigned n_numbers,
    const std::function<void(tile::cpu::VectorBuilder&, llvm::Function&)>& body) {
  llvm::LLVMContext context;
  llvm::Module module("benchmark", context);
  tile::cpu::prepare_module(module, target);
  llvm::IRBuilder<> ir(context);
  std::vector<llvm::Type*> types(n_pointers, ir.getPtrTy());
  types.insert(types.end(), n_numbers, ir.getInt64Ty());
  auto* function = llvm::Function::Create(llvm::FunctionType::get(ir.getVoidTy(), types, false),
                                          llvm::Function::ExternalLinkage, "run", module);
  tile::cpu::prepare_function(*function, target);
  ir.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  tile::cpu::VectorBuilder builder(ir, target);
  body(builder, *function);
  ir.CreateRetVoid();
  return std::make_unique<tile::CompiledCode>(tile::cpu::generate_image(module, target));
}

}  // namespace tessera::benchmarks
