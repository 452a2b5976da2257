// An executor that shares even the smallest region among its threads, as large models do.
#pragma once

#include "ops/executor.h"

namespace tessera::testing {

struct AlwaysParallel : ops::Executor {
  explicit AlwaysParallel(int n_threads) : Executor(n_threads, 0) {}
};

}  // namespace tessera::testing
