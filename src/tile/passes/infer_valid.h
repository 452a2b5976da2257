// infer_valid: shapes and valid shapes again, with what is now known.
//
// While tracing, a valid extent such as min(8, t - row) is an expression in the loop's variable.
// Once the loops are exact and the symbols have bounds, many of these are plain numbers: then the
// statements made of them have constant extents, and a matmul of 8 rows is known to have 8. Types
// are recomputed from the operands, in order, so that what is learned of a view reaches everything
// that is made of it.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

void infer_valid(ir::Kernel& kernel);

}  // namespace tessera::tile::passes
