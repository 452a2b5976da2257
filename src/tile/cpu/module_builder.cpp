#include "tile/cpu/module_builder.h"

#include "tile/cpu/code_generator.h"

namespace tessera::tile::cpu {

ModuleBuilder::ModuleBuilder(const std::string& name, const Target& target,
                             llvm::LLVMContext& context)
    : target_(target),
      module_(std::make_unique<llvm::Module>(name, context)),
      ir_(context),
      b_(ir_, target_) {
  prepare_module(*module_, target_);
}

llvm::Function* ModuleBuilder::begin(const std::string& name, unsigned pointers, unsigned numbers,
                                     llvm::Function::LinkageTypes linkage) {
  std::vector<llvm::Type*> types(pointers, ir_.getPtrTy());
  types.insert(types.end(), numbers, ir_.getInt64Ty());
  auto* function = llvm::Function::Create(llvm::FunctionType::get(ir_.getVoidTy(), types, false),
                                          linkage, name, *module_);
  prepare_function(*function, target_);
  ir_.SetInsertPoint(llvm::BasicBlock::Create(ir_.getContext(), "entry", function));
  return function;
}

llvm::Function* ModuleBuilder::begin_entry(const std::string& name, unsigned pointers,
                                           unsigned numbers) {
  return begin(name, pointers, numbers, llvm::Function::ExternalLinkage);
}

llvm::Function* ModuleBuilder::begin_internal(const std::string& name, unsigned pointers,
                                              unsigned numbers) {
  return begin(name, pointers, numbers, llvm::Function::InternalLinkage);
}

void ModuleBuilder::when(llvm::Value* condition, const std::function<void()>& body) {
  llvm::Function* function = ir_.GetInsertBlock()->getParent();
  auto* then = llvm::BasicBlock::Create(ir_.getContext(), "then", function);
  auto* after = llvm::BasicBlock::Create(ir_.getContext(), "after", function);
  ir_.CreateCondBr(condition, then, after);
  ir_.SetInsertPoint(then);
  body();
  ir_.CreateBr(after);
  ir_.SetInsertPoint(after);
}

void ModuleBuilder::choose(llvm::Value* value, std::int64_t first,
                           const std::vector<std::function<void()>>& cases) {
  llvm::Function* function = ir_.GetInsertBlock()->getParent();
  auto* after = llvm::BasicBlock::Create(ir_.getContext(), "after", function);
  llvm::SwitchInst* choice = ir_.CreateSwitch(value, after);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    auto* block = llvm::BasicBlock::Create(ir_.getContext(), "case", function);
    choice->addCase(ir_.getInt64(static_cast<std::uint64_t>(first) + i), block);
    ir_.SetInsertPoint(block);
    cases[i]();
    ir_.CreateBr(after);
  }
  ir_.SetInsertPoint(after);
}

}  // namespace tessera::tile::cpu
