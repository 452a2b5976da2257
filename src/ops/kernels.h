// The tile kernels of the operators, for whoever wants to look at them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/tile.h>

namespace tessera::ops {

struct TileKernel {
  const std::string& name() const { return kernel.name(); }  // unique

  std::string_view op;
  std::string_view implementation;  // that runs it, in the registry
  tile::Kernel kernel;
  std::map<std::string, std::int64_t> dims = {};  // DeepSeek-V2-Lite's, for one token
};

// Every kernel, in the order of the operators.
std::vector<TileKernel> tile_kernels();

// Throws Error(kInvalidArgument), naming the kernels there are.
TileKernel tile_kernel(std::string_view name);

// A shape class of a kernel, other than by arguments of a call.
struct ShapeChoice {
  std::map<std::string, std::int64_t> dims;      // instead of the kernel's own
  tile::Element element = tile::Element::kBF16;  // of parameters that take any
  std::set<std::string> gaps;                    // parameters whose rows stand apart
};

// Arguments without memory: for Kernel::stage() and prepare(). Throws Error(kInvalidArgument)
// naming what there is, where a dim or a parameter does not exist.
std::vector<tile::Argument> arguments_of(const TileKernel& kernel, const ShapeChoice& choice);

// "in x: fp32[t, n]"; "floating" for an element type that the call brings.
std::string describe(const tile::Parameter& parameter);

}  // namespace tessera::ops
