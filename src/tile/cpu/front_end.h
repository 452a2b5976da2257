// The languages that the compiler plugin takes.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tile/cpu/target.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace tessera::tile::cpu {

struct FrontEnd {
  std::string_view name;
  // Lowers `ir` for the target; the functions it leaves with external linkage are the entries.
  // Throws tessera::Error.
  std::unique_ptr<llvm::Module> (*lower)(std::string_view ir, std::string_view options,
                                         const Target& target, llvm::LLVMContext& context);
};

// All of them, in one list.
std::span<const FrontEnd> front_ends();

// LLVM's own IR as text, for kernels written by hand and for tests of what follows.
std::unique_ptr<llvm::Module> lower_llvm_text(std::string_view ir, std::string_view options,
                                              const Target& target, llvm::LLVMContext& context);

}  // namespace tessera::tile::cpu
