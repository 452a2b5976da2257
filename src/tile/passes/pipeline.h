// The list of passes, in one place: what a traced kernel goes through before a target lowers it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tile/ir/kernel.h"

namespace tessera::tile {

struct Pass {
  std::string_view name;
  void (*run)(ir::Kernel&);
};

std::span<const Pass> pass_list();

// Runs them all, with the verifier after each.
void run_passes(ir::Kernel& kernel);

// The kernel's text after a stage: "trace" or a pass's name.
std::string text_after(ir::Kernel kernel, std::string_view stage);

}  // namespace tessera::tile
