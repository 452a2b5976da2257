#include "tile/cpu/front_end.h"

#include <array>

#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>

#include "base/fail.h"
#include "tile/cpu/code_generator.h"
#include "tile/cpu/lower_attention.h"
#include "tile/cpu/lower_kernel.h"
#include "tile/cpu/lower_limits.h"
#include "tile/cpu/lower_product.h"

namespace tessera::tile::cpu {

std::span<const FrontEnd> front_ends() {
  static constexpr std::array kFrontEnds{
      FrontEnd{"llvm", lower_llvm_text},
      FrontEnd{"tile", lower_tile_text},
      FrontEnd{"product", lower_product},
      FrontEnd{"attention", lower_attention},
      FrontEnd{"expanded attention", lower_expanded_attention},
      FrontEnd{"limits", lower_limits},
  };
  return kFrontEnds;
}

std::unique_ptr<llvm::Module> lower_llvm_text(std::string_view ir, std::string_view,
                                              const Target& target, llvm::LLVMContext& context) {
  llvm::SMDiagnostic diagnostic;
  auto module =
      llvm::parseAssemblyString(llvm::StringRef(ir.data(), ir.size()), diagnostic, context);
  if (module == nullptr) {
    fail(ErrorCode::kCompiler, "line {} of the LLVM IR: {}", diagnostic.getLineNo(),
         diagnostic.getMessage().str());
  }
  prepare_module(*module, target);
  for (llvm::Function& function : *module) {
    if (!function.isDeclaration()) prepare_function(function, target);
  }
  return module;
}

}  // namespace tessera::tile::cpu
