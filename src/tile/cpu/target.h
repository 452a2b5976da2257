// The CPU that code is made for. Instructions are chosen from this description while lowering: LLVM
// ends the process when it meets an AVX-512 intrinsic for an AVX2 target.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace llvm {
class TargetMachine;
}

namespace tessera::tile::cpu {

struct Target {
  std::string triple;
  std::string cpu;       // LLVM's name
  std::string features;  // LLVM's "+a,-b" list beyond the CPU's own; only the host needs one

  int vector_bytes = 16;  // width of the registers that lowering uses
  int n_registers = 16;   // of that width

  bool x86 = false;
  bool avx = false;
  bool avx2 = false;
  bool avx512 = false;  // F, BW, DQ and VL
  bool fma = false;
  bool f16c = false;      // converts between fp16 and fp32
  bool bf16_dot = false;  // dot product of bf16 pairs into fp32
  bool vnni = false;      // dot product of int8 quads into int32, in registers of vector_bytes

  // A sentence if this process cannot run code for the target, else empty. Compiling still works.
  std::string cannot_run;

  // fp32 values in one register.
  int lanes() const { return vector_bytes / 4; }
};

// By LLVM's name for a CPU ("haswell", "znver5", "skylake-avx512", "x86-64", "neoverse-n1", ...);
// "" or "native" is the machine at hand, "aarch64" the baseline of that architecture. Throws
// Error(kUnsupported) for a name that LLVM does not know.
Target describe_target(std::string_view cpu_name);

// Code generator settings: position independent, CodeGenOptLevel Default.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target);

}  // namespace tessera::tile::cpu
