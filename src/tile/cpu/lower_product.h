// The compiler's front end for matrix products that the library calls directly: no kernel text,
// only the name of the weight's layout.
#pragma once

#include <memory>
#include <string_view>

#include "tile/cpu/target.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace tessera::tile::cpu {

// `layout` as to_string(PanelLayout) writes it. The entries are "plan", "prepare" and "multiply"
// (tile/product/product_arguments.h).
std::unique_ptr<llvm::Module> lower_product(std::string_view layout, std::string_view options,
                                            const Target& target, llvm::LLVMContext& context);

}  // namespace tessera::tile::cpu
