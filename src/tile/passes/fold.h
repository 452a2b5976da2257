// fold: from tiles to points.
//
// A tile operation that only moves numbers (view, reshape, transpose, expand, slice, concat) is a
// map of indices. This pass follows these maps from each store back to memory, so that none of them
// costs anything: what remains is a nest of iteration variables whose body loads, computes and
// stores one point. A reshape that tears a dimension apart splits a variable in two; a concat
// splits the nest. Only what cannot be a map gets memory of its own: reductions, matmul results,
// and matmul operands that are computed.
//
// A matmul with a packed weight becomes a `contract`; one of two tiles a plain nest with a reducing
// variable.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

void fold(ir::Kernel& kernel);

}  // namespace tessera::tile::passes
