// epilogue: what follows a matmul moves into it.
//
// After `fold`, a matmul's sums go to memory, and later nests read them, point by point. Where
// every reader is a plain nest that takes each sum at most once, the nests become the matmul's own
// sinks: the sums are rounded, scaled, split and stored while they are in registers, straight to
// where they belong, and the buffer between is gone. A matmul that is reshaped, split, transposed
// and assembled thus writes segments of its columns to several tensors. Readers that sum over the
// row, or pair its columns, need the whole row: then the buffer stays and a barrier follows.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

void epilogue(ir::Kernel& kernel);

}  // namespace tessera::tile::passes
