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
//
// A tensor that is updated in place is loaded where its tiles are used, as any other: so what is
// used once more after a store is copied before it, and the nest that stores loads no element but
// those that the same point stores. Where it would, the value is copied first.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

void fold(ir::Kernel& kernel);

}  // namespace tessera::tile::passes
