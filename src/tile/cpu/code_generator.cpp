#include "tile/cpu/code_generator.h"

#include <span>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Attributes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "base/fail.h"
#include "tile/cpu/image_linker.h"

namespace tessera::tile::cpu {

namespace {

llvm::SmallVector<char, 0> emit(llvm::Module& module, const Target& target,
                                llvm::CodeGenFileType type) {
  std::string reason;
  llvm::raw_string_ostream reason_stream(reason);
  if (llvm::verifyModule(module, &reason_stream)) {
    fail(ErrorCode::kCompiler, "lowering made LLVM IR that is not valid: {}", reason_stream.str());
  }
  // The IR is in SSA form with its loops unrolled as they should be: an IR pass pipeline would add
  // milliseconds and no speed.
  const auto machine = make_target_machine(target);
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, type)) {
    fail(ErrorCode::kCompiler, "no code can be generated for {}", target.cpu);
  }
  passes.run(module);
  return buffer;
}

}  // namespace

void prepare_module(llvm::Module& module, const Target& target) {
  module.setTargetTriple(target.triple);
  module.setDataLayout(make_target_machine(target)->createDataLayout());
}

void prepare_function(llvm::Function& function, const Target& target) {
  function.setDoesNotThrow();
  function.setDSOLocal(true);
  if (target.x86) {
    // Some CPUs' descriptions prefer narrow vectors; the lowering has chosen its width.
    const std::string bits = std::to_string(target.vector_bytes * 8);
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
  }
}

CodeImage generate_image(llvm::Module& module, const Target& target) {
  const auto object = emit(module, target, llvm::CodeGenFileType::ObjectFile);
  CodeImage image = link_image(std::span(object.data(), object.size()));
  image.cannot_run = target.cannot_run;
  return image;
}

std::string generate_asm(llvm::Module& module, const Target& target) {
  const auto text = emit(module, target, llvm::CodeGenFileType::AssemblyFile);
  return {text.data(), text.size()};
}

std::string print_module(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

}  // namespace tessera::tile::cpu
