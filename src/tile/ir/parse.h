// Reading a kernel's text form: the inverse of print().
//
// Safe on any input: nesting, sizes and numbers are bounded, and what is not a kernel is a
// KernelError (TL201) that names the line. The result is well formed; verify() checks what it
// means.
#pragma once

#include <string_view>

#include "tile/ir/kernel.h"

namespace tessera::tile::ir {

Kernel parse(std::string_view text);

}  // namespace tessera::tile::ir
