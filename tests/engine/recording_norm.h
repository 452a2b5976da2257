// A norm that tells what steps ran: the rows of every call that has others than the one before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/rms_norm/rms_norm.h"

namespace tessera::testing {

inline std::vector<std::int64_t> recorded_rows;

// Computes what the native norm does.
inline constexpr ops::RmsNormImplementation kRecordingNorm = {
    "recording", [](std::int64_t, std::int64_t) { return std::string(); },
    [](const ops::ConstRows& x, const float* weight, float eps, const ops::Rows& y,
       ops::Executor& executor) {
      if (recorded_rows.empty() || recorded_rows.back() != x.rows) recorded_rows.push_back(x.rows);
      ops::rms_norm(x, weight, eps, y, executor);
    }};

}  // namespace tessera::testing
