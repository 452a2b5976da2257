// What the machine can do at most at this moment, with all threads of an executor: reading memory,
// and dot products. Measured beside what is compared with it, since the speed of a shared machine
// changes within seconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/buffer.h"
#include "ops/executor.h"
#include "tile/limits/limits.h"

namespace tessera::ops {

using tile::Dot;

class MachineLimits {
 public:
  // How long a measurement takes, roughly.
  static constexpr double kReadSeconds = 0.025;
  static constexpr double kDotSeconds = 0.010;

  // Takes memory much larger than the caches: 256 MB, or four times the last cache where that is
  // more. Compiles the loops, and finds out how many turns take the times above. Throws what
  // tile::Limits throws and Error(kOutOfMemory).
  explicit MachineLimits(Executor& executor);

  // Bytes per second.
  double read();
  // Operations per second; a multiplication and an addition are two.
  double dot(Dot dot);

 private:
  double read_once(std::int64_t tasks);
  double dot_once(Dot dot, std::int64_t turns);

  Executor& executor_;
  tile::Limits limits_;
  Buffer memory_;
  std::int64_t next_ = 0;  // the task of memory_ that is read next
  std::int64_t read_tasks_ = 1;
  std::array<std::int64_t, std::size(tile::kDots)> turns_ = {};  // of a task; 0: not known yet
};

}  // namespace tessera::ops
