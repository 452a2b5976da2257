// SwiGLU (Shazeer 2020): silu(gate) * up, with silu(x) = x / (1 + exp(-x)).
#pragma once

#include "ops/executor.h"
#include "ops/rows.h"

namespace tessera::ops {

// gate_up [rows, 2 n]: the gate's n values, then those of up. y [rows, n] may be its first half.
void swiglu(const ConstRows& gate_up, const Rows& y, Executor& executor);

// The same in double.
void swiglu_reference(const ConstRows& gate_up, const Rows& y);

}  // namespace tessera::ops
