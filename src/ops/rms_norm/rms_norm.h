// RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x^2) + eps) * weight, row by row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/executor.h"
#include "ops/recorded_rows.h"
#include "ops/rows.h"

namespace tessera::ops {

// x, y [rows, n]; weight [n]. y may be x. Accumulates in fp32.
void rms_norm(const ConstRows& x, const float* weight, float eps, const Rows& y,
              Executor& executor);

// The same in double.
void rms_norm_reference(const ConstRows& x, const float* weight, float eps, const Rows& y);

struct RmsNormImplementation {
  std::string_view name;
  // Why it cannot run rows of n values: the end of a sentence such as "needs a multiple of 16".
  // Empty: it can.
  std::string (*unsupported)(std::int64_t rows, std::int64_t n);
  void (*run)(const ConstRows& x, const float* weight, float eps, const Rows& y,
              Executor& executor);
  // The same in a recorded step, by the workers that info.spread says; the launch's reads and
  // writes are those of x and y. Null: it cannot be recorded.
  void (*record)(graph::Recorder& recorder, graph::LaunchInfo info, const RecordedRows& x,
                 const float* weight, float eps, const RecordedRows& y) = nullptr;
};

extern const RmsNormImplementation kRmsNormTile;
extern const RmsNormImplementation kRmsNormNative;
extern const RmsNormImplementation kRmsNormReference;

}  // namespace tessera::ops
