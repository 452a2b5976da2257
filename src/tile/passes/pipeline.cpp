#include "tile/passes/pipeline.h"

#include "tile/ir/fail.h"
#include "tile/ir/print.h"
#include "tile/ir/verify.h"
#include "tile/passes/epilogue.h"
#include "tile/passes/fold.h"
#include "tile/passes/in_place.h"
#include "tile/passes/infer_valid.h"
#include "tile/passes/pairs.h"
#include "tile/passes/parallel.h"
#include "tile/passes/phases.h"
#include "tile/passes/scratch.h"
#include "tile/passes/unroll.h"

namespace tessera::tile {

namespace {

constexpr Pass kPasses[] = {
    {"unroll", passes::unroll},            // loops with exact tails from unroll lists
    {"infer_valid", passes::infer_valid},  // valid shapes and indices, simplified by what is known
    {"fold", passes::fold},                // tiles become index maps: points, loads and stores
    {"epilogue", passes::epilogue},        // what follows a matmul moves into it
    {"pairs", passes::pairs},              // stores that interleave go together
    {"phases", passes::phases},            // what must wait for what; loops cut at the barriers
    {"in_place", passes::in_place},        // nothing is overwritten before it is read
    {"parallel", passes::parallel},        // what threads share: rows or columns
    {"scratch", passes::scratch},          // where intermediate values live
};

}  // namespace

std::span<const Pass> pass_list() {
  return kPasses;
}

void run_passes(ir::Kernel& kernel) {
  ir::verify(kernel, "before the passes");
  for (const Pass& pass : kPasses) {
    pass.run(kernel);
    ir::verify(kernel, fmt::format("after {}", pass.name));
  }
}

std::string text_after(ir::Kernel kernel, std::string_view stage) {
  ir::verify(kernel, "before the passes");
  if (stage == "trace") return print(kernel);
  for (const Pass& pass : kPasses) {
    pass.run(kernel);
    ir::verify(kernel, fmt::format("after {}", pass.name));
    if (pass.name == stage) return print(kernel);
  }
  std::string names = "trace";
  for (const Pass& pass : kPasses) names += fmt::format(", {}", pass.name);
  fail_at(code::kUnknownOption, {}, "no stage \"{}\": it must be one of {}, llvm, asm", stage,
          names);
}

}  // namespace tessera::tile
