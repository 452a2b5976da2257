// Products of bytes, summed in 32 bits.
#pragma once

#include "tile/cpu/vector_builder.h"

namespace tessera::tile::cpu {

// sums + the products of unsigned weight bytes and signed activation bytes, four in each 32-bit
// lane. Exact.
llvm::Value* multiply_bytes(VectorBuilder& builder, llvm::Value* sums, llvm::Value* weights,
                            llvm::Value* activations);

}  // namespace tessera::tile::cpu
