// The compiler's front end for the tile language's IR.
#pragma once

#include <memory>
#include <string_view>

#include "tile/cpu/target.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace tessera::tile::cpu {

// Parses the text of a traced kernel, runs the passes and lowers the result: one function per phase
// and one that plans a call (tile/call/kernel_arguments.h).
std::unique_ptr<llvm::Module> lower_tile_text(std::string_view ir, std::string_view options,
                                              const Target& target, llvm::LLVMContext& context);

}  // namespace tessera::tile::cpu
