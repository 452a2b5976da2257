// From an LLVM module to something that runs or can be read.
#pragma once

#include <string>

#include "tile/cpu/target.h"
#include "tile/jit/code_image.h"

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace tessera::tile::cpu {

// Sets what every module needs before functions are added: triple and data layout.
void prepare_module(llvm::Module& module, const Target& target);

// Sets what every function needs, entry or not: no unwind tables, the target's full register width.
void prepare_function(llvm::Function& function, const Target& target);

// Verifies and generates code. Every function with external linkage becomes an entry. Throws
// Error(kCompiler) if the module is not valid or needs a symbol from outside. The module is used
// up.
CodeImage generate_image(llvm::Module& module, const Target& target);

std::string generate_asm(llvm::Module& module, const Target& target);
std::string print_module(const llvm::Module& module);

}  // namespace tessera::tile::cpu
