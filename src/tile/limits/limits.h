// What one thread can do at most, as loops compiled for the CPU: reading memory, and the dot
// products that matrix products are made of. ops/limits measures them on all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "tile/limits/limits_plan.h"
#include "tile/packed/panel_layout.h"

namespace tessera::tile {

class CompiledCode;

// The loop that products by a weight of this layout run.
Dot dot_of(cpu::PanelLayout layout);
std::string_view to_string(Dot dot);  // "f32", "bf16", "i8"

class Limits {
 public:
  // Compiles with the plugin or takes the code from the cache; throws what that throws.
  Limits();

  // Reads bytes [begin, end) of memory, multiples of read_step(); memory is aligned to 64.
  void read(const std::byte* memory, std::int64_t begin, std::int64_t end) const;
  std::int64_t read_step() const { return plan_.read_bytes; }

  // Runs that many turns of a loop.
  void compute(Dot dot, std::int64_t turns) const;
  // How many operations they are; a multiplication and an addition are two.
  double operations(Dot dot, std::int64_t turns) const {
    return static_cast<double>(turns) *
           static_cast<double>(plan_.operations[static_cast<std::size_t>(dot)]);
  }

 private:
  std::shared_ptr<const CompiledCode> code_;
  LimitsPlan plan_;
  LimitsReadFunction* read_ = nullptr;
  LimitsDotFunction* dot_[std::size(kDots)] = {};
};

}  // namespace tessera::tile
