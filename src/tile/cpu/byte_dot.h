// Products of bytes, summed in 32 bits.
#pragma once

#include "tile/cpu/vector_builder.h"

namespace tessera::tile::cpu {

// sums + the products of unsigned weight bytes and signed activation bytes, four in each 32-bit
// lane. Exact.
llvm::Value* multiply_bytes(VectorBuilder& builder, llvm::Value* sums, llvm::Value* weights,
                            llvm::Value* activations);

// Products of small unsigned bytes and signed bytes (from -127 on) can be summed in 16 bits: a lane
// takes two of them from each quad. Those of nibbles (0 ... 15) fit for the eight quads of a whole
// group, 16 * 15 * 127 = 30480 at most; those of six bits for one quad. Worth it where the CPU has
// no dot product of bytes.
bool sums_in_shorts(const Target& target);

// shorts (nullptr: 0) + the products of weight bytes and activation bytes, two in each 16-bit lane.
llvm::Value* multiply_in_shorts(VectorBuilder& builder, llvm::Value* shorts, llvm::Value* weights,
                                llvm::Value* activations);
// sums + the two shorts of each 32-bit lane.
llvm::Value* add_shorts(VectorBuilder& builder, llvm::Value* sums, llvm::Value* shorts);

}  // namespace tessera::tile::cpu
