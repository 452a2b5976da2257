// parallel: what threads share.
//
// The rows of elementwise work and reductions are shared out: loop iterations, in chunks worth a
// thread's while. A matmul shares the columns of its weight, because when rows are few reading the
// weight is all the work there is, and each part of it is then read by one thread; its loops over
// rows move inside, so that a part of the weight is used for all of them while it is near;
// the pieces of an unrolled loop (8 + 4 + 1 rows) share their tasks for the same reason. Only where
// rows are many and columns few are rows shared as well. Chunks depend on the shapes alone, never
// on the number of threads, and no sum is cut in two: results are the same for every split.
#pragma once

#include "tile/ir/kernel.h"

namespace tessera::tile::passes {

void parallel(ir::Kernel& kernel);

}  // namespace tessera::tile::passes
