// The verifier: what every form of the IR must hold. It runs on what was parsed and after every
// pass, so that a fault of a pass is an error of that pass and not a wrong number.
//
// Names are known and defined once, values are defined before they are used and in scope, types are
// those that infer() gives, indices have the rank of their tensor, and statements are made as
// ir/kernel.h says.
#pragma once

#include <string_view>

#include "tile/ir/kernel.h"

namespace tessera::tile::ir {

// Throws KernelError (TL202) whose sentence starts with stage ("after fold").
void verify(const Kernel& kernel, std::string_view stage);

}  // namespace tessera::tile::ir
