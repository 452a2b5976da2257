// The compiler's front end for loops that show what the CPU can do at most.
#pragma once

#include <memory>
#include <string_view>

#include "tile/cpu/target.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace tessera::tile::cpu {

// There is one such module: `text` is empty. The entries are "plan", "read", "dot_f32", "dot_bf16"
// and "dot_i8" (tile/limits/limits_plan.h).
std::unique_ptr<llvm::Module> lower_limits(std::string_view text, std::string_view options,
                                           const Target& target, llvm::LLVMContext& context);

}  // namespace tessera::tile::cpu
