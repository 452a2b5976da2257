// What compiled code is given: the interface between a call and the lowering.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::tile {

// Members are read by emitted code at these offsets: change the lowering with them.
struct KernelArguments {
  void* const* tensors = nullptr;         // the kernel's arguments, in order
  const std::int64_t* symbols = nullptr;  // in order of declaration
  std::byte* scratch = nullptr;           // 64-byte aligned
  std::int64_t* plan = nullptr;           // written by the function "plan"
};

// What "plan" writes, from the symbols: the number of phases, the bytes of scratch, then for each
// phase the number of its tasks, and about how many points and multiply-adds they are together.
inline constexpr int kPlanPhases = 0;
inline constexpr int kPlanScratch = 1;
inline constexpr int kPlanTasks = 2;
inline constexpr int kMaxPhases = 62;
inline constexpr int kPlanWork = kPlanTasks + kMaxPhases;
inline constexpr int kPlanSize = kPlanWork + kMaxPhases;

// "plan" and "phase0", "phase1", ...: runs tasks [begin, end) of the phase; plan ignores the range.
using KernelFunction = void(const KernelArguments*, std::int64_t begin, std::int64_t end);

}  // namespace tessera::tile
