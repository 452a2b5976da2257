// What the machine can do at most, measured with emitted code: reading memory, and the dot product
// (or fma) that the matmul of a layout uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tile/cpu/target.h"
#include "tile/jit/compiled_code.h"
#include "tile/packed/panel_layout.h"

namespace tessera::benchmarks {

class Limits {
 public:
  Limits(const tile::cpu::Target& target, tile::cpu::PanelLayout layout);

  // Reads bytes [begin, end), multiples of 512.
  void read(const std::byte* memory, std::int64_t begin, std::int64_t end) const;
  // Executes the peak loop; returns how many floating-point operations that was.
  double compute(std::int64_t iterations) const;

 private:
  std::unique_ptr<tile::CompiledCode> read_;
  std::unique_ptr<tile::CompiledCode> compute_;
  int sums_ = 0;
  double flops_per_iteration_ = 0;
};

}  // namespace tessera::benchmarks
