// The compiler's front ends for attention, which the library calls directly: no kernel text, only
// the shape of what is attended to.
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

// The same entries for expanded keys and values: `shape` is "CACHE_DTYPE KEY VALUE BLOCK_TOKENS",
// for example "bf16 192 128 256"; a block is one page.
std::unique_ptr<llvm::Module> lower_expanded_attention(std::string_view shape,
                                                       std::string_view options,
                                                       const Target& target,
                                                       llvm::LLVMContext& context);

}  // namespace tessera::tile::cpu
