// The types of tile operations: one rule per kind, used while tracing and by the verifier.
#pragma once

#include <vector>

#include "tile/ir/kernel.h"

namespace tessera::tile::ir {

// The type of op's result. Where a shape or an element type is the author's choice (view, reshape,
// expand, slice, const, cast, matmul) it is read from op.type; the valid shape is always computed,
// but for view, whose valid shape is the author's too. Throws KernelError with op's location.
Type infer(const Op& op, const std::vector<const Op*>& operands, const Memory* memory);

// The rule of pointwise operations on more than one tile: equal extents, or 1, or missing on the
// left.
Type broadcast(const Op& op, const Type& a, const Type& b);

}  // namespace tessera::tile::ir
