// RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x^2) + eps) * weight, row by row.
#pragma once

#include "ops/executor.h"
#include "ops/rows.h"

namespace tessera::ops {

// x, y [rows, n]; weight [n]. y may be x. Accumulates in fp32.
void rms_norm(const ConstRows& x, const float* weight, float eps, const Rows& y,
              Executor& executor);

// The same in double.
void rms_norm_reference(const ConstRows& x, const float* weight, float eps, const Rows& y);

}  // namespace tessera::ops
