// A kernel as text: what passes are tested on, what `--stage` shows and what the compiler is given.
//
//   kernel rms_norm {
//     symbol t in 1..*
//     in x: bf16[t, 2048]
//     out y: bf16[t, 2048]
//     unroll (row < t) by [8, 1] {
//       %0 = view x[row, 0] : bf16[8, 2048]
//       %1 = mul %0, %0 : fp32[8, 2048]
//       ...
#pragma once

#include <string>

#include "tile/ir/kernel.h"

namespace tessera::tile::ir {

struct PrintOptions {
  bool locations = false;  // each operation's place in the kernel's source: loc "file":12
};

std::string print(const Kernel& kernel, const PrintOptions& options = {});
std::string print(const Type& type);
std::string print(const Op& op);  // without its blocks: for messages

}  // namespace tessera::tile::ir
