#include "tile/cpu/target.h"

#include <mutex>
#include <optional>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include "base/fail.h"

namespace tessera::tile::cpu {

namespace {

constexpr const char* kX86Triple = "x86_64-unknown-linux-gnu";
constexpr const char* kArmTriple = "aarch64-unknown-linux-gnu";

#if defined(__aarch64__)
constexpr const char* kHostTriple = kArmTriple;
#else
constexpr const char* kHostTriple = kX86Triple;
#endif

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();  // instructions that lowering spells out
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

const llvm::Target& registered(const std::string& triple) {
  std::string reason;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, reason);
  if (found == nullptr)
    fail(ErrorCode::kUnsupported, "no code generator for {}: {}", triple, reason);
  return *found;
}

std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const std::string& triple, const std::string& cpu,
                                                 const std::string& features) {
  return std::unique_ptr<llvm::MCSubtargetInfo>(
      registered(triple).createMCSubtargetInfo(triple, cpu, features));
}

// "+avx,-amx-tile,...": virtual machines hide features that the CPU's name implies.
std::string host_features() {
  std::string list;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    if (!list.empty()) list += ',';
    list += feature.second ? '+' : '-';
    list += feature.first().str();
  }
  return list;
}

bool knows_cpu(const std::string& triple, const std::string& cpu) {
  return subtarget(triple, "", "")->isCPUStringValid(cpu);
}

Target name_target(std::string_view cpu_name) {
  Target target;
  target.cpu = std::string(cpu_name);
  if (cpu_name.empty() || cpu_name == "native") {
    target.triple = kHostTriple;
    target.cpu = llvm::sys::getHostCPUName().str();
    target.features = host_features();
  } else if (cpu_name == "generic") {
    target.triple = kHostTriple;
  } else if (cpu_name == "aarch64") {
    target.triple = kArmTriple;
    target.cpu = "generic";
  } else if (knows_cpu(kX86Triple, target.cpu)) {
    target.triple = kX86Triple;
  } else if (knows_cpu(kArmTriple, target.cpu)) {
    target.triple = kArmTriple;
  } else {
    fail(ErrorCode::kUnsupported,
         "LLVM knows no CPU named {}; use names such as haswell, skylake-avx512, znver5, x86-64 or "
         "neoverse-n1",
         cpu_name);
  }
  return target;
}

// Instructions for operating systems and special uses, which the code generator never chooses by
// itself. A CPU without them runs the code all the same.
bool is_never_generated(llvm::StringRef feature) {
  static constexpr const char* kNames[] = {
      "cldemote", "clflushopt", "clwb",     "clzero",  "enqcmd",  "fsgsbase",  "hreset",
      "invpcid",  "kl",         "lwp",      "mwaitx",  "pconfig", "pku",       "ptwrite",
      "rdpid",    "rdpru",      "rdrnd",    "rdseed",  "rtm",     "serialize", "sgx",
      "shstk",    "tsxldtrk",   "uintr",    "usermsr", "waitpkg", "wbnoinvd",  "widekl",
      "xsave",    "xsavec",     "xsaveopt", "xsaves"};
  return feature.starts_with("amx-") || llvm::is_contained(kNames, feature);
}

std::string why_not_here(const Target& target, const llvm::MCSubtargetInfo& info) {
  if (target.triple != kHostTriple) {
    return fmt::format("code for {} ({}) cannot run on this machine", target.cpu, target.triple);
  }
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    if (feature.second || is_never_generated(feature.first())) continue;
    const std::string name = feature.first().str();
    if (info.checkFeatures("+" + name)) {
      return fmt::format("code for {} cannot run on this machine: its CPU lacks {}", target.cpu,
                         name);
    }
  }
  return "";
}

}  // namespace

Target describe_target(std::string_view cpu_name) {
  initialize_llvm();
  Target target = name_target(cpu_name);
  const auto info = subtarget(target.triple, target.cpu, target.features);
  const auto has = [&](const char* feature) {
    return info->checkFeatures(std::string("+") + feature);
  };

  target.x86 = llvm::Triple(target.triple).isX86();
  if (target.x86) {
    target.avx = has("avx");
    target.avx2 = has("avx2");
    target.avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
    target.fma = has("fma");
    target.f16c = has("f16c");
    target.bf16_dot = target.avx512 && has("avx512bf16");
    target.vnni = target.avx512 ? has("avx512vnni") : has("avxvnni");
    // AVX without AVX2 has no 256-bit integer arithmetic, which widening and rounding need.
    target.vector_bytes = target.avx512 ? 64 : target.avx2 ? 32 : 16;
    target.n_registers = target.avx512 ? 32 : 16;
  } else {
    target.fma = true;
    target.f16c = true;
    target.n_registers = 32;
  }
  target.cannot_run = why_not_here(target, *info);
  return target;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target) {
  initialize_llvm();
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // lowering says where to fuse
  return std::unique_ptr<llvm::TargetMachine>(
      registered(target.triple)
          .createTargetMachine(target.triple, target.cpu, target.features, options,
                               llvm::Reloc::PIC_, llvm::CodeModel::Small,
                               llvm::CodeGenOptLevel::Default));
}

}  // namespace tessera::tile::cpu
