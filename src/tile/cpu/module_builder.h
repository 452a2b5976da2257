// A module of functions that the library calls by name, while it is being lowered.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <llvm/IR/Module.h>

#include "tile/cpu/vector_builder.h"

namespace tessera::tile::cpu {

class ModuleBuilder {
 public:
  ModuleBuilder(const std::string& name, const Target& target, llvm::LLVMContext& context);

  VectorBuilder& b() { return b_; }
  llvm::IRBuilder<>& ir() { return ir_; }
  llvm::Value* constant(std::int64_t value) {
    return ir_.getInt64(static_cast<std::uint64_t>(value));
  }

  // `pointers` pointers, then `numbers` i64; the builder stands in its first block. Entries can be
  // called from outside.
  llvm::Function* begin_entry(const std::string& name, unsigned pointers, unsigned numbers);
  llvm::Function* begin_internal(const std::string& name, unsigned pointers, unsigned numbers);

  // if (condition) body().
  void when(llvm::Value* condition, const std::function<void()>& body);
  // cases[value - first](), where there is one.
  void choose(llvm::Value* value, std::int64_t first,
              const std::vector<std::function<void()>>& cases);

  std::unique_ptr<llvm::Module> take() { return std::move(module_); }

 private:
  llvm::Function* begin(const std::string& name, unsigned pointers, unsigned numbers,
                        llvm::Function::LinkageTypes linkage);

  Target target_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> ir_;
  VectorBuilder b_;
};

}  // namespace tessera::tile::cpu
