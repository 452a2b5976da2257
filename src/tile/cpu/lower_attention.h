// The compiler's front end for attention over a paged latent cache, which the library calls
// directly: no kernel text, only the cache's shape.
#pragma once

#include <memory>
#include <string_view>

#include "tile/cpu/target.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace tessera::tile::cpu {

// `shape` is "DTYPE LATENT ROPE PAGE_TOKENS", for example "bf16 512 64 64"; pages hold an even
// number of tokens. The entries are "plan", "pack", "attend", "merge" and "finish"
// (tile/attention/attention_arguments.h).
std::unique_ptr<llvm::Module> lower_attention(std::string_view shape, std::string_view options,
                                              const Target& target, llvm::LLVMContext& context);

}  // namespace tessera::tile::cpu
